"""skiplane migrate."""

import json

import psycopg
import pytest
from click.testing import CliRunner

from skiplane.commands.migrate import migrate


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(migrate, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_progress_goes_to_stderr_and_a_second_run_says_so(empty_dsn: str):
    code, out, err = run("--dsn", empty_dsn, "--shards", "2")
    assert (code, out) == (0, "")
    assert "version 0001 initial tables\n" in err
    assert run("--dsn", empty_dsn) == (0, "", "up to date\n")


def test_json_lists_what_was_done(empty_dsn: str):
    code, out, _ = run("--dsn", empty_dsn, "--json")
    assert code == 0
    assert "version 0001 initial tables" in json.loads(out)["done"]
    assert json.loads(run("--dsn", empty_dsn, "--json")[1]) == {"done": []}


def test_check_changes_nothing_and_tells_by_its_exit_code(empty_dsn: str):
    code, out, _ = run("--dsn", empty_dsn, "--check")
    assert code == 1
    assert out.startswith("schema skiplane is not installed\n")
    assert json.loads(run("--dsn", empty_dsn, "--check", "--json")[1])["pending"] != []
    run("--dsn", empty_dsn)
    assert run("--dsn", empty_dsn, "--check") == (0, "up to date\n", "")


def test_refusal_is_one_sentence_and_exit_code_1(empty_dsn: str):
    run("--dsn", empty_dsn, "--shards", "2")
    code, out, err = run("--dsn", empty_dsn, "--shards", "1")
    assert (code, out) == (1, "")
    assert err.startswith("Error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("time", ["soon", "abc", "0", "-1", "nan", "99d"])
def test_a_lock_timeout_that_is_none_is_bad_input(empty_dsn: str, time: str):
    code, out, err = run("--dsn", empty_dsn, "--lock-timeout", time)
    assert (code, out) == (2, "")
    assert "--lock-timeout" in err


def test_lock_timeout_is_passed_on(empty_dsn: str):
    run("--dsn", empty_dsn)
    with psycopg.connect(empty_dsn) as other:
        other.execute("drop function skiplane.shard_labels()")
        # Its owner is the one who drops it: the migrator meets an uncommitted change.
        code, _, err = run("--dsn", empty_dsn, "--shards", "2", "--lock-timeout", "300ms")
    assert code == 1
    assert "waiting 300ms for a lock held by process" in err
