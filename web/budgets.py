"""How much each tenant may submit, held over all web processes together.

A process takes slices of a tenant's budget out of the database and spends them by
itself, so that no request updates a row. What it has in hand lapses after a
moment: an idle process keeps nothing from a busy one for long.
"""

import asyncio
import math
import time
from collections import OrderedDict

from ..schema.web_calls import take_submissions
from .database import Database
from .problems import Problem

SLICE = 50
LAPSE_SECONDS = 5.0
MOST_TENANTS = 10_000


class _Purse:
    __slots__ = ("denied", "denied_until", "held", "lock", "taken_at")

    def __init__(self) -> None:
        self.held = 0
        self.taken_at = 0.0
        self.denied = 0
        self.denied_until = 0.0
        self.lock = asyncio.Lock()


class Budgets:
    """Lets submissions in at the rate of their tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._purses: OrderedDict[str, _Purse] = OrderedDict()

    async def spend(self, tenant: str, count: int = 1) -> None:
        """Let ``count`` submissions of a tenant in.

        Raises:
            Problem: It is above its rate; Retry-After says when to come again.
        """
        purse = self._purse(tenant)
        if self._pay(purse, count):
            return
        _refuse_denied(purse, tenant, count)
        async with purse.lock:
            if self._pay(purse, count):
                return
            _refuse_denied(purse, tenant, count)
            missing = count - purse.held
            budget = await self._database.run(take_submissions(tenant, missing, missing + SLICE))
            now = time.monotonic()
            if not budget.granted:
                purse.denied = missing
                purse.denied_until = now + budget.retry_after
                _refuse_denied(purse, tenant, count)
            purse.held += budget.granted - count
            purse.taken_at = now

    def _purse(self, tenant: str) -> _Purse:
        purse = self._purses.get(tenant)
        if purse is None:
            purse = self._purses[tenant] = _Purse()
            if len(self._purses) > MOST_TENANTS:
                self._purses.popitem(last=False)
        return purse

    def _pay(self, purse: _Purse, count: int) -> bool:
        if purse.held and time.monotonic() - purse.taken_at > LAPSE_SECONDS:
            purse.held = 0
        if purse.held < count:
            return False
        purse.held -= count
        return True


def _refuse_denied(purse: _Purse, tenant: str, count: int) -> None:
    left = purse.denied_until - time.monotonic()
    if left > 0 and count >= purse.denied:
        raise Problem(
            "rate_limited",
            f"Tenant {tenant} submits faster than it may.",
            "tenant_id",
            tenant,
            "Wait as long as Retry-After says, and send batches.",
            headers={"retry-after": str(max(1, math.ceil(left)))},
        )
