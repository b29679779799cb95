"""The OpenAPI 3.1 document, written from the contract."""

import re
from functools import lru_cache
from typing import Any

import msgspec

from .. import __version__
from .contract import OPERATIONS, Answer, Operation
from .problems import CODES, MEDIA_TYPE, ProblemDocument

REF = "#/components/schemas/{name}"
# What every route that needs a key may answer, and what every route with a body.
_ALWAYS = ("bad_request", "method_not_allowed", "too_large", "invalid_input", "unavailable")
_WITH_KEY = ("unauthenticated", "not_allowed", "not_installed")
_WITH_BODY = ("malformed_json", "unsupported_media_type")


@lru_cache(maxsize=1)
def document() -> bytes:
    """Give the document as JSON."""
    return msgspec.json.encode(build())


def build() -> dict[str, Any]:
    """Build the document."""
    shapes: list[Any] = [ProblemDocument]
    for operation in OPERATIONS.values():
        shapes += [answer.shape for answer in operation.answers.values() if answer.shape]
        shapes += [body for body in (operation.body, operation.other_body) if body]
    schemas, components = msgspec.json.schema_components(shapes, ref_template=REF)
    by_shape = dict(zip((repr(shape) for shape in shapes), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), operation in OPERATIONS.items():
        paths.setdefault(path, {})[method.lower()] = _operation(path, operation, by_shape)
    _example_problem(components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Skiplane",
            "version": __version__,
            "description": "A distributed task scheduler that lives in PostgreSQL. Errors are"
            " problem+json with a stable `code`, and name the field at fault and the remedy.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key (`sk_...`); the header X-API-Key takes it, too.",
                }
            },
        },
    }


def _operation(path: str, operation: Operation, shapes: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.text.partition(". ")[0].removesuffix("."),
        "description": f"{operation.text}\n\nRole: {operation.role}."
        + (" Keys that are bound to a tenant are refused." if operation.fleet else ""),
        "tags": [_tag(path)],
        "parameters": [
            *_path_parameters(path),
            *(p for p in map(_parameter, operation.parameters)),
        ],
        "responses": {
            **{str(status): _answer(a, shapes) for status, a in operation.answers.items()},
            **_problems(operation),
        },
    }
    if operation.role == "open":
        made["security"] = []
    if operation.body:
        schema: dict[str, Any] = shapes[repr(operation.body)]
        if operation.other_body:
            schema = {"anyOf": [schema, shapes[repr(operation.other_body)]]}
        content: dict[str, Any] = {"schema": schema}
        if operation.body_examples:
            content["examples"] = {
                f"example{number}": {"value": example}
                for number, example in enumerate(operation.body_examples, 1)
            }
        made["requestBody"] = {
            "required": operation.body_required,
            "content": {"application/json": content},
        }
    return made


def _tag(path: str) -> str:
    parts = path.strip("/").split("/")
    return parts[2] if parts[0] == "api" else "probes"


_NAME: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 200}
_PATH_NAMES: dict[str, Any] = {
    "key_id": {"type": "string"},
    "queue": _NAME,
    "task_type": _NAME,
    "tenant_id": _NAME,
}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _PATH_NAMES.get(name, {"type": "string", "format": "uuid"}),
        }
        for name in re.findall(r"{(\w+)}", path)
    ]


def _parameter(parameter: Any) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.text,
        "schema": parameter.schema,
    }


def _answer(answer: Answer, shapes: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": {"type": "string"}}
    if answer.shape is not None:
        content = {"schema": shapes[repr(answer.shape)]}
    if answer.example is not None:
        content["example"] = answer.example
    made: dict[str, Any] = {"description": answer.text, "content": {answer.media_type: content}}
    headers = {
        name: {"description": text, "schema": {"type": "string"}} for name, text in answer.headers
    }
    made["headers"] = {**headers, **_REQUEST_ID}
    return made


_REQUEST_ID = {
    "X-Request-ID": {
        "description": "The id that the request came with, or was given.",
        "schema": {"type": "string"},
    }
}


def codes_of(operation: Operation) -> tuple[str, ...]:
    """Give the codes of all problems that a route may answer."""
    codes = [*_ALWAYS, *operation.errors]
    if operation.role != "open":
        codes += _WITH_KEY
    if operation.body:
        codes += _WITH_BODY
    return tuple(dict.fromkeys(codes))


def _problems(operation: Operation) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for code in codes_of(operation):
        by_status.setdefault(CODES[code][0], []).append(code)
    made: dict[str, Any] = {}
    for status, codes in sorted(by_status.items()):
        if status in operation.answers:
            continue
        headers: dict[str, Any] = dict(_REQUEST_ID)
        if status in (429, 503):
            headers["Retry-After"] = {"description": "Seconds.", "schema": {"type": "integer"}}
        if status == 401:
            headers["WWW-Authenticate"] = {
                "description": "How to authenticate.",
                "schema": {"type": "string"},
            }
        made[str(status)] = {
            "description": "; ".join(f"`{code}`: {CODES[code][1]}" for code in codes),
            "headers": headers,
            "content": {
                MEDIA_TYPE: {
                    "schema": {"$ref": REF.format(name="ProblemDocument")},
                    "example": {
                        "type": f"urn:skiplane:problem:{codes[0]}",
                        "title": CODES[codes[0]][1],
                        "status": status,
                        "code": codes[0],
                        "detail": f"{CODES[codes[0]][1]}.",
                    },
                }
            },
        }
    return made


def _example_problem(components: dict[str, Any]) -> None:
    components["ProblemDocument"]["properties"]["code"]["enum"] = sorted(CODES)
