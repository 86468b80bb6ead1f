"""`memproxy eval`: measures retrieval, the gate and learning on data sets, in a throw-away store."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

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


def _retrieval(evaluation: str) -> Callable[..., None]:
    """A command that measures retrieval on this data set."""

    def measure(
        *,
        data: Data,
        recipe: Recipes = None,
        pooled: Pooled = False,
        smoke: Smoke = False,
        qa: Qa = False,
        config: Config = None,
        tenant: Tenant = None,  # noqa: ARG001 - every command takes one
        json_out: JsonOut = None,
        lexical: Lexical = False,
        model_path: ModelPath = None,
        cache: Cache = DEFAULT_CACHE,
    ) -> None:
        from memproxy.evals.retrieval import Options, measure_retrieval  # noqa: PLC0415 - other commands start faster

        options = Options(
            recipes=list(dict.fromkeys(recipe or [DEFAULT_RECIPE])),
            pooled=pooled,
            smoke=smoke,
            lexical=lexical,
            model_path=model_path,
            cache=cache,
            qa=qa,
            config=config,
        )
        measure_retrieval(evaluation, data, options, json_out)

    return measure


app.command("locomo", help="LoCoMo: which turns and sessions of long conversations are found for a question.")(
    _retrieval("locomo")
)
app.command("longmemeval", help="LongMemEval: which turns and sessions are found in a haystack of dated sessions.")(
    _retrieval("longmemeval")
)


@app.command()
def gate(
    *,
    data: Data,
    config: Annotated[Path | None, typer.Option(help="Configuration whose gate is measured.", metavar="FILE")] = None,
    recipe: Annotated[  # noqa: ARG001 - every evaluation takes them
        list[str] | None,
        typer.Option(help="Taken, and without effect: the gate searches nothing.", metavar="NAME", hidden=True),
    ] = None,
    tenant: Tenant = None,  # noqa: ARG001 - every command takes one
    json_out: JsonOut = None,
) -> None:
    """The gate: how often messages of each kind are searched for."""
    from memproxy.evals.gate_verdicts import measure_gate  # noqa: PLC0415 - other commands start faster without it

    measure_gate(data, json_out, config=config)


@app.command()
def extraction(
    *,
    data: Annotated[Path, typer.Option(help="Dialogues with their gold: a file, or a folder of them.", metavar="PATH")],
    mode: Annotated[
        Literal["verbatim", "model"],
        typer.Option(help="verbatim: by rules. model: by models.extract of --config, or OPENAI_MODEL."),
    ] = "verbatim",
    config: Annotated[Path | None, typer.Option(help="Configuration to learn with.", metavar="FILE")] = None,
    tenant: Tenant = None,  # noqa: ARG001 - every command takes one
    smoke: Annotated[bool, typer.Option("--smoke", help="Ten dialogues only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also print what went wrong in each dialogue.")] = False,
    json_out: JsonOut = None,
    model_path: Annotated[
        Path | None, typer.Option(help="Folder of a local ONNX embedding model. Default: words alone.", metavar="DIR")
    ] = None,
    cache: Cache = DEFAULT_CACHE,
) -> None:
    """Extraction: what is stored after dialogues of known content."""
    from memproxy.evals.extraction import Options, measure_extraction  # noqa: PLC0415 - other commands start faster

    options = Options(mode=mode, smoke=smoke, verbose=verbose, config=config, model_path=model_path, cache=cache)
    measure_extraction(data, options, json_out)
