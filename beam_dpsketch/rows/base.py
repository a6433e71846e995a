"""Common base of row transforms: labels with a digest, refusals, and the conversion from releases to rows."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.utils.secret import Secret

from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.answers.questions.entries import Takes
from beam_dpsketch.answers.released import RELEASED_KINDS, Released
from beam_dpsketch.answers.summary_answers import SummaryAnswers
from beam_dpsketch.config import read_release
from beam_dpsketch.config.asking import read_ask
from beam_dpsketch.config.forms import Block, Entry, make, read_block, read_text, take_one
from beam_dpsketch.config.paths import nearest, refusal, unknown
from beam_dpsketch.config.plain import plain
from beam_dpsketch.config.release import places_of_arguments
from beam_dpsketch.config.settings import ENCODING_FORM, EXPECT_BLOCK, NOISE_BLOCK, RELEASE_BLOCK, ROWS_BLOCK
from beam_dpsketch.errors import AllAtOnce, ConfigError, RefusalError
from beam_dpsketch.exact.bounding.parts import Scale
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.domains import BytesDomain, Domain
from beam_dpsketch.exact.sketches.listed_items import ListedItems
from beam_dpsketch.planning.kinds.metrics import Metrics
from beam_dpsketch.privacy.loss.payment import Uses
from beam_dpsketch.privacy.summary_counts import WEIGHT, same_as
from beam_dpsketch.rows.schema import (
    WINDOW_COLUMNS,
    WithPlace,
    answer_rows,
    columns_of_answers,
    key_types,
    places_of,
    release_columns,
    row_type,
    setting_types,
    to_release_row,
)
from beam_dpsketch.transforms import EnvironmentSecret, FileSecret
from beam_dpsketch.transforms.private_release import DOORS, PrivateRelease
from beam_dpsketch.transforms.steps.idempotent_noise import Replayable

_OF_TABLES = ("time", "unreadable", "csv")
_NO_SECRET = "must be the place of the secret: environment: DPSKETCH_SECRET, or file: /run/secrets/dpsketch"
_NAMED = inspect.Parameter.POSITIONAL_OR_KEYWORD
_NO_DOMAIN = "is required for these releases. Use the domain of the private transform"
_OTHER_DOMAIN = "must be the domain of the release, which has another domain or none"
_NO_ERROR_OUTPUT = (
    "is not supported for private transforms: an error about a record would publish that it exists. Records that "
    "cannot be counted are dropped. Check types before, with ValidateWithSchema or MapToFields, and keep that error "
    "output private"
)


class RowTransform(beam.PTransform):
    """Transform with plain settings, whose steps have labels that depend on its settings."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wrap the constructor: errors about unknown and missing names match `beam_dpsketch.config` and come together.

        The constructor's signature declares the settings, for readers and for Beam YAML. Missing settings are `None`.
        """
        super().__init_subclass__(**kwargs)
        make: Callable[..., None] = cls.__init__
        shown = inspect.signature(make)
        names = [*shown.parameters][1:]

        @functools.wraps(make)
        def checked(self: RowTransform, *given: Any, **named: Any) -> None:
            others = {name: named.pop(name) for name in [*named] if name not in names}
            bound = shown.bind_partial(self, *given, **named).arguments
            with AllAtOnce() as checks:
                checks.do(self._name_settings, {name: bound.get(name) for name in names}, others)
                checks.do(make, self, **{name: self._settings.get(name) for name in names})

        cls.__init__ = checked  # type: ignore[assignment, method-assign]

    def _name_settings(self, settings: Mapping[str, Any], others: Mapping[str, Any]) -> None:
        """Store the settings, and refuse unknown names.

        Args:
          settings: declared settings by name.
          others: other given arguments.
        """
        super().__init__()
        meant = {nearest(name, settings): value for name, value in others.items()}  # so that only the name is refused
        self._settings = {
            name: meant.get(name) if value is None else value
            for name, value in settings.items()
            if value is not None or meant.get(name) is not None
        }
        with AllAtOnce() as checks:
            if others.get("error_handling") is not None:
                checks.refuse(refusal("error_handling", _NO_ERROR_OUTPUT, "E814"))
            for name in others:
                if name != "error_handling":
                    checks.refuse(unknown("", name, settings))
            if "label" in self._settings:
                checks.do(read_text, self._settings["label"], "label")

    def default_label(self) -> str:
        """Build the transform's label, which depends on its settings."""
        return f"{type(self).__name__} {self.step}"

    @property
    def step(self) -> str:
        """Label for inner steps, with a digest of the settings and the given `label`."""
        label = self._settings.get("label")
        return f"{label + ' ' if label else ''}{digest(self._settings)}"


class PrivateRows(RowTransform):
    """Base of private transforms: rows in, rows with releases or answers out."""

    def __init_subclass__(cls, *, kind: str, over_time: bool = False, **others: Entry) -> None:
        """Build the constructor and its documentation from the settings table.

        Args:
          kind: release kind.
          over_time: whether the transform releases timeline rows for a horizon.
          others: settings that differ from the table.
        """
        block = _settings_of(kind, others, over_time=over_time)
        lines = "\n".join(f"  {name}: {_line(entry)}." for name, entry in block.entries.items())
        cls.__doc__ = f"{inspect.cleandoc(str(cls.__doc__))}\n\nArgs:\n{lines}"

        def make(self: PrivateRows, **_: Any) -> None:
            self._declare(kind, block if over_time else None)

        types = sorted(setting_types(block).items(), key=lambda each: each[0] not in block.required)
        empty = dict.fromkeys(block.required, inspect.Parameter.empty)
        known = [inspect.Parameter(name, _NAMED, annotation=each, default=empty.get(name)) for name, each in types]
        shown = inspect.Signature([inspect.Parameter("self", _NAMED), *known], return_annotation=None)
        make.__name__, make.__signature__ = "__init__", shown  # type: ignore[attr-defined]
        cls.__init__ = make  # type: ignore[method-assign]
        super().__init_subclass__()

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("PrivateRows is the base class of private transforms. Use a subclass")

    def _declare(self, kind: str, over_time: Block | None) -> None:
        with AllAtOnce() as checks:
            if over_time is not None and "horizon" not in self._settings:
                checks.refuse(refusal("horizon", f"is required: {over_time.required['horizon']}", "E802"))
            given = {name: value for name, value in self._settings.items() if name != "label"}
            ask, noise, size = (given.pop(name, None) for name in ("ask", "idempotent_noise", "expect"))
            self._is_text = bool(checks.do(read_encoding, given.pop("encoding", None)))
            declared = checks.do(read_release, {"kind": kind, **given})
            self._ask = None if declared is None else checks.do(self._read_ask, ask, declared)
            secret = None if noise is None else checks.do(read_noise, noise)
            scale = None if size is None else checks.do(read_scale, size)
        self._declared = checks.result(declared)
        self._private = private_transform(self._declared)
        if secret is not None:
            self._private = self._private.with_idempotent_noise(**secret)
        if scale is not None:
            self._private = self._private.with_size_hint(scale)

    @staticmethod
    def _read_ask(ask: Any, declared: ReleaseSpec) -> Ask | None:
        if declared.horizon is not None and ask is not None:
            raise refusal("ask", "is not supported for timeline rows. Add QueryTimeline after this transform", "E812")
        if ask == "releases" or (ask is None and declared.count.wanted is None):
            return None
        if ask is None:
            return Ask("top_k", declared.count.wanted)
        asked = read_ask(ask, "ask", declared.spec.domain)
        _check_answerable(asked, declared)
        return asked

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        steps = _Steps(self._private, self._declared, self._ask, is_text=self._is_text)
        try:
            return pcoll | self.step >> steps
        except RefusalError as error:  # about windows or fields of the rows
            raise error.at(places=places_of_arguments(self._declared.privacy_unit)) from None


class _Steps(beam.PTransform):
    """Make releases, add their places (key, window), then convert them to rows."""

    def __init__(self, private: Replayable, declared: ReleaseSpec, ask: Ask | None, *, is_text: bool) -> None:
        super().__init__()
        self._private, self._declared, self._ask, self._is_text = private, declared, ask, is_text

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        declared = self._declared
        places = places_of(pcoll, declared.keys)
        if declared.horizon is not None:
            places = {**key_types(declared.keys, pcoll), **WINDOW_COLUMNS}
        if self._ask is None:
            columns = release_columns(places, over_time=declared.horizon is not None, is_text=self._is_text)
            to_rows: beam.PTransform = beam.MapTuple(to_release_row, self._is_text)
        else:
            columns = columns_of_answers(places, self._ask, declared.spec.domain, listed_of(declared))
            to_rows = beam.ParDo(AnswerRows(self._ask, [*columns], declared.spec.domain))
        return (
            pcoll
            | "Release" >> self._private
            | "Place" >> beam.ParDo(WithPlace(places)).with_output_types(tuple[dict[str, Any], Any])
            | "Rows" >> to_rows.with_output_types(row_type(columns))
        )


class AnswerRows(beam.DoFn):
    """Convert (place fields, release) pairs to answer rows."""

    def __init__(self, ask: Ask, columns: list[str], domain: Domain | BytesDomain | None) -> None:
        self._ask, self._columns, self._domain = ask, columns, domain

    def process(self, element: tuple[Mapping[str, Any], Released]) -> Iterator[beam.Row]:
        fields, released = element
        if self._ask.entry.takes is not Takes.NOTHING and self._ask.part(released).spec.domain != self._domain:
            raise ConfigError("domain", _NO_DOMAIN if self._domain is None else _OTHER_DOMAIN, "E812")
        yield from answer_rows(fields, released, self._ask, self._columns)


def _check_answerable(ask: Ask, declared: ReleaseSpec) -> None:
    """Refuse a question that the release cannot answer, before the run spends budget."""
    released, entry, path = RELEASED_KINDS[declared.sketch_input.kind.name], ask.entry, f"ask.{ask.kind}"
    if not ask.is_answered_by(released):
        by_groups = "is not supported for thresholded counts. Ask for items or top_k"
        raise refusal(path, by_groups if declared.count.by_item else ask.refusal(released), "E812")
    terms, is_aside = declared.terms, getattr(SummaryAnswers, entry.method, None) is getattr(released, entry.method)
    told = {name for counter in terms.counters for name in counter.names}
    if terms.total_cells is not None:  # the counters determine the weight, and equal quantities
        told.update(same_as(WEIGHT, terms.bounds))
    if is_aside and (side := entry.summary_count) is not None and side not in told:
        raise refusal(path, f"requires the summary count {side}. See privacy.summary_counts", "E812")
    if entry.setting is not None and not getattr(declared.count, entry.setting):
        raise refusal(path, f"requires the setting {entry.setting}: true", "E812")


def listed_of(declared: ReleaseSpec) -> ListedItems | None:
    """Get the listed items, or `None`."""
    return declared.spec if declared.spec.is_listed else None


def private_transform(declared: ReleaseSpec) -> PrivateRelease[Any]:
    """Build the private transform for a declared release.

    >>> from beam_dpsketch.config import read_release
    >>> settings = {"kind": "frequencies", "item": "city", "privacy": {"rho": 0.5}, "privacy_unit": "record"}
    >>> private_transform(read_release(settings)).default_label()
    'PrivateFrequencies'
    """
    return DOORS[declared.count.name].of(declared, Uses.of_settings(declared.identify(declared.terms)))


def read_noise(settings: Any, path: str = "idempotent_noise") -> dict[str, Any]:
    """Read arguments for replayable noise: `{release_id, environment}`, or `file`."""
    given = read_block(settings, path, NOISE_BLOCK)
    place = take_one(given, path, NOISE_BLOCK.either[0], _NO_SECRET)
    secret: Secret = EnvironmentSecret(given[place]) if place == "environment" else FileSecret(given[place])
    return {"release_id": given["release_id"], "secret": secret}


def read_scale(settings: Any, path: str = "expect") -> Scale:
    """Read the approximate input size: `{rows, keys}`."""
    return make(path, Scale, read_block(settings, path, EXPECT_BLOCK))


def digest(settings: dict[str, Any]) -> str:
    """Compute a short digest of the settings for labels, because some SDKs reuse the other parts."""
    text = json.dumps(plain(settings, ""), sort_keys=True, default=repr)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def read_encoding(value: Any) -> bool:
    """Read the encoding, and return whether releases in rows are text."""
    return bool(ENCODING_FORM.read(ROWS_BLOCK.entries["encoding"].usual if value is None else value, "encoding"))


def _settings_of(kind: str, others: Mapping[str, Entry], *, over_time: bool) -> Block:
    """List the settings for a release kind's transform."""
    block = Block("Release", {**RELEASE_BLOCK.entries, **ROWS_BLOCK.entries, **others}).of_kind(kind)
    if not over_time:
        return block.without("kind", "horizon", *_OF_TABLES, *(["ask"] if kind == Metrics.name else []))
    entries = {name: entry._replace(words=entry.over_time or entry.words) for name, entry in block.entries.items()}
    entries["horizon"] = entries["horizon"]._replace(needed=_line(entries["horizon"]))
    return Block(block.name, entries).without("kind", "windows", "ask", *_OF_TABLES)


def _line(entry: Entry) -> str:
    """Format a setting's line of documentation, without backticks."""
    return entry.words.replace("`", "")
