"""`bridle parse`: train, predict, eval on parse trees."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.shared import (
    Clock,
    InputError,
    InputFile,
    InputFileOrStream,
    OutputFileOrStdout,
    check_writable,
    json_option,
    print_json,
    read_model,
    reported,
    threads_option,
    write_text,
)  # fmt: skip
from bridle.cli.structural import Training, conclude, solve_task, training_options

if TYPE_CHECKING:
    from bridle.data.trees import Tree
    from bridle.files.packed import Source
    from bridle.objective.segments import Score


@click.group()
def parse() -> None:
    """Parse sentences: learn a grammar and its weights from trees, apply it, score its answers."""


@parse.command(epilog="Example: bridle parse train wsj.mrg wsj.model --test wsj.23.mrg")
@training_options(C=0.1, about_C="The loss's weight.", gap=0.05, solver="bcfw")
@click.option(
    "--order", type=click.IntRange(0), default=0, show_default=True,
    help="How many siblings to its left a rule may look at.",
)  # fmt: skip
@click.option(
    "--rare", type=click.IntRange(0), default=1, show_default=True,
    help="Words seen no more often are treated by what they look like, as unknown ones are.",
)  # fmt: skip
@click.option(
    "--frequent", type=click.IntRange(1), default=10, show_default=True,
    help="Words seen at least so often have weights of their own at the edges of spans.",
)  # fmt: skip
@click.pass_context
def train(ctx: click.Context, /, *, order: int, rare: int, frequent: int, **given: Any) -> None:
    """Train a parser on DATA, trees in brackets as in treebanks, and write MODEL.

    Traces, functions (NP-SBJ) and X over X are left out of the trees. Without MODEL it is written
    beside the data, as DATA.model.
    """
    clock, options = Clock(), Training(**given)
    method = options.prepared()
    with clock.timing("read"):
        trees = read_treebank(options.data)
    from bridle.fitting.tree import tree_task

    make = partial(
        tree_task, trees, options.C, order=order, rare=rare, frequent=frequent,
        n_threads=options.threads,
    )  # fmt: skip
    with reported():
        task, solution = solve_task(make, "parser", method, options, clock)
    fitted = task.fitted(solution, seed=options.seed, gap=options.gap)

    def facts() -> dict[str, Any]:
        sizes = {
            "sentences": len(trees), "rows": sum(len(tree.words) for tree in trees),
            "features": task.problem.n_features, "threads": options.threads,
        }  # fmt: skip
        if options.test is None:
            return sizes
        return sizes | {"test": _as_dict(_score(options.test, fitted, options.threads))}

    conclude(ctx, options, clock, solution, fitted, facts, partial(_print_training, options))


def _print_training(options: Training, report: dict[str, Any]) -> None:
    click.echo(
        f"{options.data}: {report['sentences']:,} sentences, {report['rows']:,} words, "
        f"{report['features']:,} features"
    )
    click.echo(f"{report['solver']} {report['message']}, {report['seconds']['total']:.2f} s")
    if options.test is not None:
        click.echo(f"{options.test}: {_in_words(report['test'])}")
    click.echo(f"wrote {report['model']}")


@parse.command()
@click.argument("data", type=InputFileOrStream)
@click.argument("model", type=InputFile)
@click.argument("output", type=OutputFileOrStdout, required=False)
@threads_option
def predict(*, data: Source, model: Path, output: Path | None, threads: int | None) -> None:
    """Parse the sentences of DATA, one a line with blanks between words: one tree a line.

    DATA = - reads standard input; without OUTPUT the trees go to standard output. An empty line
    stays one. A sentence that the grammar cannot parse gets a flat tree.
    """
    if output is not None:
        check_writable(output, inputs=(data, model))
    fitted = read_model(model, ("tree",))
    from bridle.files.packed import text_of

    with reported():
        sentences = [line.split() for line in text_of(data)]
        trees = iter(fitted.predict([x for x in sentences if x], n_threads=threads))
        text = "".join(f"{next(trees)}\n" if words else "\n" for words in sentences)
        if output is not None:
            write_text(output, [text])
        else:
            click.echo(text, nl=False)


@parse.command(name="eval")
@click.argument("data", type=InputFile)
@click.argument("model", type=InputFile)
@click.option("--trees", is_flag=True, help="MODEL is a file of answers: trees, from any tool.")
@threads_option
@json_option
def evaluate(
    *, data: Path, model: Path, trees: bool, threads: int | None, as_json: bool
) -> None:  # fmt: skip
    """Score MODEL on the trees of DATA: precision, recall and F1 of labelled brackets.

    As PARSEVAL counts them: over all sentences, without tags.
    """
    if trees:
        score = _compared(read_treebank(data), read_treebank(model), model)
    else:
        score = _score(data, read_model(model, ("tree",)), threads)
    if as_json:
        print_json(_as_dict(score))
    else:
        click.echo(f"{data}: {_in_words(_as_dict(score))}")


def read_treebank(path: Path) -> list[Tree]:
    """The trees of a file, cleaned as parsers are trained on them."""
    from bridle.data.trees import clean, read_trees
    from bridle.files.packed import text_of

    with reported():
        try:
            found = [clean(tree) for tree in read_trees(text_of(path).read())]
        except ValueError as error:
            raise InputError(f"{path}: {error}") from error
    trees = [tree for tree in found if tree is not None]
    if not trees:
        raise InputError(f"{path}: has no trees")
    return trees


def _score(path: Path, model: Any, threads: int | None) -> Score:
    truth = read_treebank(path)
    with reported():
        answers = model.predict([tree.words for tree in truth], n_threads=threads)
    return _compared(truth, answers, path)


def _compared(truth: list[Tree], answers: list[Tree], path: Path) -> Score:
    from bridle.structured.trees import score_trees

    try:
        return score_trees(truth, answers)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def _as_dict(score: Score) -> dict[str, Any]:
    return {
        "precision": score.precision, "recall": score.recall, "f1": score.f1,
        "true": score.true, "found": score.found, "correct": score.correct,
    }  # fmt: skip


def _in_words(score: dict[str, Any]) -> str:
    parts = (f"{name} {100 * score[name]:.2f}" for name in ("precision", "recall"))
    return f"{', '.join(parts)}, F1 {100 * score['f1']:.2f}, brackets {score['true']:,}"
