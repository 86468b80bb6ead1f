"""`memproxy eval`: measures retrieval, the gate and learning on data sets, in a throw-away store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memproxy.errors import ConfigError

if TYPE_CHECKING:
    from memproxy.evals.command import Options

app = typer.Typer(
    help="Measure retrieval, the gate and learning on data sets, in a throw-away store.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

DEFAULT_CACHE = Path("~/.cache/memproxy/eval")
DEFAULT_RECIPE = "default"

Data = Annotated[Path, typer.Option(help="The data set's file.", metavar="FILE")]
Recipes = Annotated[
    list[str] | None,
    typer.Option("--recipe", help="Recipe to measure; several are compared. Default: default.", metavar="NAME"),
]
Pooled = Annotated[bool, typer.Option("--pooled", help="Everything in one user's memory.")]
Smoke = Annotated[bool, typer.Option("--smoke", help="Ten questions only.")]
Qa = Annotated[bool, typer.Option("--qa", help="Let a model answer from what is recalled, and another one judge.")]
Reader = Annotated[
    str | None, typer.Option(help="Model that answers (--qa). Default: models.reader of --config.", metavar="MODEL")
]
Judge = Annotated[
    str | None, typer.Option(help="Model that judges (--qa). Default: models.judge of --config.", metavar="MODEL")
]
QaLog = Annotated[
    Path | None,
    typer.Option(
        help="Log of --qa, a line for each question; a second run goes on from it. Default: in --cache.", metavar="FILE"
    ),
]
Config = Annotated[Path | None, typer.Option(help="Configuration whose models and upstream --qa uses.", metavar="FILE")]
Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant", help="Taken, and without effect: the throw-away store has one tenant.", metavar="T", hidden=True
    ),
]
JsonOut = Annotated[Path | None, typer.Option("--json", help="Write the figures there.", metavar="FILE")]
ModelPath = Annotated[Path | None, typer.Option(help="Folder of a local ONNX embedding model.", metavar="DIR")]
Lexical = Annotated[bool, typer.Option("--lexical", help="Search by words alone, without an embedding model.")]
Cache = Annotated[Path, typer.Option(help="Folder that keeps vectors between runs.", metavar="DIR")]
BaseUrl = Annotated[str | None, typer.Option(help="Measure a running memproxy instead.", metavar="URL")]
ApiKey = Annotated[str | None, typer.Option(help="Bearer key to call it with.", envvar="MEMPROXY_EVAL_API_KEY")]


@app.command()
def locomo(
    *,
    data: Data,
    recipe: Recipes = None,
    pooled: Pooled = False,
    smoke: Smoke = False,
    qa: Qa = False,
    reader: Reader = None,
    judge: Judge = None,
    qa_log: QaLog = None,
    config: Config = None,
    tenant: Tenant = None,  # noqa: ARG001 - every command takes one
    json_out: JsonOut = None,
    lexical: Lexical = False,
    model_path: ModelPath = None,
    cache: Cache = DEFAULT_CACHE,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """LoCoMo: which turns and sessions of long conversations are found for a question."""
    options = _options(recipe, model_path, cache, base_url, api_key, pooled=pooled, smoke=smoke, lexical=lexical)
    options = _with_answers(options, reader, judge, qa_log, config) if qa else options
    _retrieval("locomo", data, options, json_out)


@app.command()
def longmemeval(
    *,
    data: Data,
    recipe: Recipes = None,
    pooled: Pooled = False,
    smoke: Smoke = False,
    qa: Qa = False,
    reader: Reader = None,
    judge: Judge = None,
    qa_log: QaLog = None,
    config: Config = None,
    tenant: Tenant = None,  # noqa: ARG001 - every command takes one
    json_out: JsonOut = None,
    lexical: Lexical = False,
    model_path: ModelPath = None,
    cache: Cache = DEFAULT_CACHE,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """LongMemEval: which turns and sessions are found in a haystack of dated sessions."""
    options = _options(recipe, model_path, cache, base_url, api_key, pooled=pooled, smoke=smoke, lexical=lexical)
    options = _with_answers(options, reader, judge, qa_log, config) if qa else options
    _retrieval("longmemeval", data, options, json_out)


@app.command()
def gate(
    *,
    data: Data,
    memory: Annotated[
        Path | None,
        typer.Option(
            help="File of lives: also count what is searched for and injected for its people; LoCoMo file: what its "
            "first conversation adds to messages that need no memory.",
            metavar="FILE",
        ),
    ] = None,
    recipe: Annotated[str, typer.Option(help="Recipe that searches --memory.", metavar="NAME")] = DEFAULT_RECIPE,
    config: Annotated[Path | None, typer.Option(help="Configuration whose gate is measured.", metavar="FILE")] = None,
    tenant: Tenant = None,  # noqa: ARG001 - every command takes one
    json_out: JsonOut = None,
    lexical: Lexical = False,
    model_path: ModelPath = None,
    cache: Cache = DEFAULT_CACHE,
) -> None:
    """The gate: how often messages of each kind are searched for."""
    from memproxy.evals import command  # noqa: PLC0415 - other commands start faster without it

    options = command.Options(recipes=[recipe], lexical=lexical, model_path=model_path, cache=cache)
    command.verdicts(data, memory, options, json_out, config=config)


@app.command()
def extraction(
    *,
    data: Annotated[
        Path | None, typer.Option(help="A file of dialogues with their gold. Default: our own.", metavar="FILE")
    ] = None,
    mode: Annotated[
        Literal["verbatim", "model"],
        typer.Option(help="verbatim: by rules. model: by models.extract of --config, or OPENAI_MODEL."),
    ] = "verbatim",
    split: Annotated[Literal["dev", "held_out", "unseen", "all"], typer.Option(help="Which dialogues.")] = "all",
    config: Annotated[Path | None, typer.Option(help="Configuration to learn with.", metavar="FILE")] = None,
    tenant: Tenant = None,  # noqa: ARG001 - every command takes one
    smoke: Annotated[bool, typer.Option("--smoke", help="Ten dialogues only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also print what went wrong in each dialogue.")] = False,
    json_out: JsonOut = None,
    model_path: Annotated[
        Path | None,
        typer.Option(help="Folder of a local ONNX embedding model. Default: words alone.", metavar="DIR"),
    ] = None,
) -> None:
    """Extraction: what is stored after dialogues of known content."""
    from memproxy.evals.extraction import command  # noqa: PLC0415 - other commands start faster without it

    options = command.Options(
        mode=mode, split=split, smoke=smoke, verbose=verbose, config=config, model_path=model_path
    )
    command.extraction(data, options, json_out)


def _retrieval(evaluation: str, data: Path, options: "Options", json_out: Path | None) -> None:
    from memproxy.evals import command  # noqa: PLC0415 - other commands start faster without it

    command.retrieval(evaluation, data, options, json_out)


def _options(
    recipes: list[str] | None,
    model_path: Path | None,
    cache: Path,
    base_url: str | None,
    api_key: str | None,
    *,
    pooled: bool,
    smoke: bool,
    lexical: bool,
) -> "Options":
    from memproxy.evals.command import Options  # noqa: PLC0415 - other commands start faster without it

    if base_url is not None and (recipes or lexical or model_path is not None):
        raise ConfigError(
            "--base-url measures that installation as it is; leave --recipe, --lexical and --model-path out."
        )
    return Options(
        recipes=list(dict.fromkeys(recipes or [DEFAULT_RECIPE])),
        pooled=pooled,
        smoke=smoke,
        lexical=lexical,
        model_path=model_path,
        cache=cache,
        base_url=base_url,
        api_key=api_key,
    )


def _with_answers(
    options: "Options", reader: str | None, judge: str | None, log: Path | None, config: Path | None
) -> "Options":
    import msgspec  # noqa: PLC0415 - other commands start faster without these

    from memproxy.evals.qa.models import Answering  # noqa: PLC0415

    answering = Answering(reader=reader, judge=judge, log=log, config=config)
    return msgspec.structs.replace(options, answering=answering)


@app.command()
def chats(
    *,
    data: Annotated[
        Path | None, typer.Option(help="A file of chats with their probes. Default: our own.", metavar="FILE")
    ] = None,
    recipe: Recipes = None,
    learn: Annotated[
        Literal["off", "verbatim", "both"],
        typer.Option(help="off: turns alone. verbatim: with facts learned from them by rules."),
    ] = "both",
    config: Annotated[
        Path | None, typer.Option(help="Configuration whose gate, recall and dedup are measured.", metavar="FILE")
    ] = None,
    tenant: Tenant = None,  # noqa: ARG001 - every command takes one
    smoke: Annotated[bool, typer.Option("--smoke", help="Ten probes only.")] = False,
    json_out: JsonOut = None,
    model_path: Annotated[
        Path | None,
        typer.Option(help="Folder of a local ONNX embedding model. Default: words alone.", metavar="DIR"),
    ] = None,
    cache: Cache = DEFAULT_CACHE,
) -> None:
    """Everyday chats: is what is injected relevant, complete and current?"""
    from memproxy.evals.unseen_chats import command  # noqa: PLC0415 - other commands start faster without it

    options = command.Options(
        recipes=list(dict.fromkeys(recipe or [DEFAULT_RECIPE])),
        learn=("off", "verbatim") if learn == "both" else (learn,),
        smoke=smoke,
        config=config,
        model_path=model_path,
        cache=cache,
    )
    command.chats(data, options, json_out)


@app.command()
def lived(
    *,
    data: Annotated[list[Path], typer.Option(help="A file of people; may be given several times.", metavar="FILE")],
    config: Annotated[
        Path | None, typer.Option(help="Configuration whose gate, recall and dedup are measured.", metavar="FILE")
    ] = None,
    tenant: Tenant = None,  # noqa: ARG001 - every command takes one
    json_out: JsonOut = None,
    model_path: Annotated[
        Path | None,
        typer.Option(help="Folder of a local ONNX embedding model. Default: words alone.", metavar="DIR"),
    ] = None,
    cache: Cache = DEFAULT_CACHE,
) -> None:
    """Weeks of everyday life: are questions answered, fresh and after they were asked before?"""
    from memproxy.evals import lived as life  # noqa: PLC0415 - other commands start faster without it
    from memproxy.evals.unseen_chats.command import Options  # noqa: PLC0415

    options = Options(
        recipes=[DEFAULT_RECIPE], learn=("off", "model"), config=config, model_path=model_path, cache=cache
    )
    life.lived(data, options, json_out)
