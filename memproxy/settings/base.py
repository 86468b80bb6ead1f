"""What every section of the configuration is made of: checked types and the section itself."""

from pathlib import Path
from typing import Annotated, Any, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

Unit = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


def http_address(value: str) -> str:
    """``value`` without a slash at its end. Raises ValueError if it is no plain http or https address."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or not (parts.port or 80) > 0:
        raise ValueError("must be an address that starts with http:// or https://")
    if parts.query or parts.fragment or any(character.isspace() for character in value):
        raise ValueError("must be an address without spaces, `?` and `#`")
    return value.rstrip("/")


def web_origin(value: str) -> str:
    """``value`` itself. Raises ValueError if no browser would say it in ``Origin``."""
    parts = urlsplit(value)
    if value != "null" and (
        not parts.netloc or value.rstrip("/").lower() != f"{parts.scheme}://{parts.netloc}".lower()
    ):
        raise ValueError("must be an origin such as https://app.example.com, with its scheme and without a path")
    return value


def relayed_call(value: str) -> str:
    """``value`` itself. Raises ValueError if it is no method and path below ``/v1/``, with ``/*`` at its end or not."""
    method, _, path = value.partition(" ")
    pieces = path.removesuffix("/*").split("/")
    known = method in {"GET", "POST", "PUT", "PATCH", "DELETE"}
    if not known or pieces[:2] != ["", "v1"] or not all(pieces[2:]) or "*" in "".join(pieces) or " " in path:
        raise ValueError("must be a method and a path, such as `POST /v1/rerank` or `GET /v1/files/*`")
    return value


def expanded(value: Path) -> Path:
    """``value`` with a leading ``~`` resolved. Raises ValueError if there is no such home folder."""
    try:
        return value.expanduser()
    except RuntimeError as error:
        raise ValueError("must be a path; the home folder of its `~` is not known") from error


def existing_folder(value: Path) -> Path:
    """``value`` itself. Raises ValueError if there is no such folder."""
    if not value.is_dir():
        raise ValueError("must be a folder that is there")
    return value


HttpAddress = Annotated[str, AfterValidator(http_address)]
WebOrigin = Annotated[str, AfterValidator(web_origin)]
FilePath = Annotated[Path, AfterValidator(expanded)]
FolderPath = Annotated[Path, AfterValidator(expanded), AfterValidator(existing_folder)]


def plain_types(annotation: Any) -> frozenset[Any]:
    """The types that an annotation is made of: ``int | None`` gives ``{int, NoneType}``."""
    inner = get_args(annotation)
    return frozenset().union(*map(plain_types, inner)) if inner else frozenset({annotation})


class Section(BaseModel):
    """A section of the file: unknown keys are errors, nothing changes later."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False, protected_namespaces=()
    )

    @field_validator("*", mode="before")
    @classmethod
    def _as_written(cls, value: object, info: ValidationInfo) -> object:
        """An empty text means "not set" where that is possible; true and false are no numbers."""
        types = plain_types(cls.model_fields[info.field_name or ""].annotation)
        if value == "" and type(None) in types:
            return None
        if isinstance(value, bool) and bool not in types and types & {int, float}:
            raise ValueError("must be a number, not true or false")
        return value
