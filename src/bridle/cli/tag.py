"""`bridle tag`: train, predict, eval on label sequences."""

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
    reported,
    threads_option,
    write_text,
)  # fmt: skip
from bridle.cli.structural import Training, conclude, solve_task, training_options

if TYPE_CHECKING:
    from bridle.files.packed import Source
    from bridle.models.chain import ChainModel

FORMATS = ("columns", "svmhmm")


@click.group()
def tag() -> None:
    """Label sequences: train a tagger, apply it, score its answers."""


@tag.command()
@training_options(C=0.1, about_C="The loss's weight.", gap=1e-2, solver="bcfw")
@click.option(
    "--format", "layout", type=click.Choice(FORMATS), default="columns", show_default=True,
    help="CoNLL columns with the label last, or SVM-hmm's format.",
)  # fmt: skip
@click.option(
    "--template", type=InputFile,
    help="Features from columns, as in CRF++.  [default: the usual window of words and tags]",
)  # fmt: skip
@click.pass_context
def train(ctx: click.Context, /, *, layout: str, template: Path | None, **given: Any) -> None:
    """Train a tagger on DATA and write MODEL with its certificate.

    Without MODEL it is written beside the data, as DATA.model.
    """
    clock, options = Clock(), Training(**given)
    method = options.prepared(template)
    if layout == "svmhmm" and template is not None:
        raise click.UsageError("--template makes features from columns; svmhmm has its own")
    from bridle.fitting.chain import chain_task

    with clock.timing("read"), reported():
        rules = _template_lines(options.data, layout, template)
        X, Y, _ = _read(options.data, layout, rules)
    with reported():
        task, solution = solve_task(
            partial(chain_task, X, Y, options.C, n_threads=options.threads), options.solver,
            method, options, clock,
        )  # fmt: skip
    fitted = task.fitted(solution, seed=options.seed, format=layout, template=rules)

    def facts() -> dict[str, Any]:
        sizes = {
            "sequences": len(X), "rows": sum(map(len, X)), "labels": fitted.classes,
            "features": fitted.features.n_features, "threads": options.threads,
        }  # fmt: skip
        if options.test is None:
            return sizes
        return sizes | {"test": _score(options.test, fitted, options.threads).as_dict()}

    conclude(ctx, options, clock, solution, fitted, facts, partial(_print_training, options))


def _print_training(options: Training, report: dict[str, Any]) -> None:
    click.echo(
        f"{options.data}: {report['sequences']:,} sequences, {report['rows']:,} tokens, "
        f"{report['features']:,} features, {len(report['labels'])} labels"
    )
    click.echo(f"{report['solver']} {report['message']}, {report['seconds']['total']:.2f} s")
    if options.test is not None:
        scores = report["test"]
        click.echo(
            f"{options.test}: accuracy {100 * scores['accuracy']:.2f} %, "
            f"segment F1 {100 * scores['f1']:.2f}"
        )
    click.echo(f"wrote {report['model']}")


@tag.command()
@click.argument("data", type=InputFileOrStream)
@click.argument("model", type=InputFile)
@click.argument("output", type=OutputFileOrStdout, required=False)
@click.option(
    "--scores", is_flag=True,
    help="Two more columns: by how much the best labels with another label here score less, and "
    "the marginal of the label, where all labels of the sequence count exp(score).",
)  # fmt: skip
@threads_option
def predict(
    *, data: Source, model: Path, output: Path | None, scores: bool, threads: int | None
) -> None:
    """Label the sequences of DATA by MODEL; the answer goes after the columns of each line.

    DATA in columns may lack the label. For SVM-hmm's format one label a line is written. DATA = -
    reads standard input; without OUTPUT the answers go to standard output.
    """
    if output is not None:
        check_writable(output, inputs=(data, model))
    fitted = _read_model(model)
    layout, rules = fitted.info["format"], fitted.info["template"]
    with reported():
        X, _, tokens = _read(data, layout, rules, labelled=False)
        answers: list[list[Any]] = fitted.predict(X, n_threads=threads)
        if scores:
            answers = _with_scores(answers, X, fitted, threads)
        lines: list[str] = []
        for sequence, labels in zip(tokens, answers, strict=True):
            lines += [
                f"{' '.join(fields)} {label}" if fields else str(label)
                for fields, label in zip(sequence, labels, strict=True)
            ]
            if layout == "columns":
                lines.append("")
        text = "\n".join(lines) + "\n"
        if output is not None:
            write_text(output, [text])
        else:
            click.echo(text, nl=False)


def _with_scores(
    answers: list[list[Any]], X: list[Any], model: ChainModel, threads: int | None
) -> list[list[str]]:
    """Each label, its margin to the best other one, and its marginal."""
    import numpy as np

    place = {label: k for k, label in enumerate(model.classes)}
    best, marginals = (of(X, n_threads=threads) for of in (model.max_marginals, model.marginals))
    out = []
    for labels, values, parts in zip(answers, best, marginals, strict=True):
        line = []
        for label, value, part in zip(labels, values, parts, strict=True):
            k = place[label]
            others = np.delete(value, k)
            line.append(f"{label} {value[k] - others.max(initial=-np.inf):.6g} {part[k]:.6g}")
        out.append(line)
    return out


@tag.command(name="eval")
@click.argument("data", type=InputFile)
@click.argument("model", type=InputFile, required=False)
@threads_option
@json_option
def evaluate(*, data: Path, model: Path | None, threads: int | None, as_json: bool) -> None:
    """Score answers as conlleval does: the last two columns of DATA are the truth and the answer.

    With MODEL, DATA is labelled by it first, and its last column is the truth.
    """
    from bridle.data.sequences import read_columns
    from bridle.objective.segments import score_sequences

    with reported():
        if model is not None:
            scores = _score(data, _read_model(model), threads)
        else:
            sequences = read_columns(data)
            if len(sequences[0][0]) < 2:
                raise InputError(f"{data}: needs two columns, the truth and the answer")
            scores = score_sequences(
                [[fields[-2] for fields in tokens] for tokens in sequences],
                [[fields[-1] for fields in tokens] for tokens in sequences],
            )
    if as_json:
        by_type = {kind: {"precision": s.precision, "recall": s.recall, "f1": s.f1}
                   for kind, s in scores.by_type.items()}  # fmt: skip
        print_json({**scores.as_dict(), "by_type": by_type})
    else:
        click.echo(str(scores))


def _template_lines(data: Path, layout: str, template: Path | None) -> list[str]:
    from bridle.data.sequences import read_columns, read_template, window_template

    if layout == "svmhmm":
        return []
    if template is not None:
        return list(read_template(template).lines)
    n_columns = len(read_columns(data)[0][0]) - 1
    if n_columns < 1:
        raise InputError(f"{data}: needs at least two columns, the last of them the label")
    return list(window_template(n_columns).lines)


def _read(
    path: Source, layout: str, rules: list[str], *, labelled: bool = True
) -> tuple[list[Any], list[list[str]], list[list[list[str]]]]:
    """Features, labels, and the fields to repeat in the output."""
    from bridle.data.sequences import Template, read_columns, read_svmhmm, split_labels
    from bridle.files.packed import name_of

    if layout == "svmhmm":
        X, Y = read_svmhmm(path)
        return X, Y, [[[] for _ in sequence] for sequence in X]
    tokens = read_columns(path)
    template = Template(tuple(rules))
    found, needed = len(tokens[0][0]), template.n_columns
    if found < needed + labelled:
        label = "and then the label" if labelled else "with or without a label after them"
        raise InputError(
            f"{name_of(path)}: the template needs {needed} columns, {label}; the file has {found}"
        )
    if not labelled and found == needed:
        return [template.features(sequence) for sequence in tokens], [], tokens
    fields, Y = split_labels(tokens)
    return [template.features(sequence) for sequence in fields], Y, tokens


def _read_model(path: Path) -> ChainModel:
    from bridle.models.chain import ChainModel
    from bridle.models.storage import load_model

    with reported():
        model = load_model(path)
    if not isinstance(model, ChainModel):
        raise InputError(f"{path}: a model of kind {model.kind!r}; this command needs a chain")
    if model.info.get("format") not in FORMATS:
        raise InputError(f"{path}: this chain was not trained from a file: it has no template")
    return model


def _score(path: Path, model: ChainModel, threads: int | None) -> Any:
    from bridle.objective.segments import score_sequences

    with reported():
        X, Y, _ = _read(path, model.info["format"], model.info["template"])
        return score_sequences(Y, model.predict(X, n_threads=threads))
