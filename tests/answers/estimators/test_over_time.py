"""Decoders of rows over time: they invert the encoder, and their noise is that of dense linear algebra."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
import pytest

from beam_dpsketch.answers.estimators import over_time
from beam_dpsketch.answers.estimators.over_time import KeptArrays, RootDecoder, decoder_of, prefix_variances
from beam_dpsketch.privacy.noise.drawing import add_noise
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.over_time.lengths import RowEncoder
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism, matrix_rows
from tests.helpers.timeline_rows import KINDS, mechanism_of

SEED = 20


def encoded(mechanism: RowMechanism, windows: np.ndarray) -> list[np.ndarray]:
    """The exact rows of windows (T, n), as float64."""
    encoder = RowEncoder(mechanism)
    return [row.astype(np.float64) for window in windows for _, row in encoder.push(window)]


def prefix(windows: int, closed: int | None = None) -> np.ndarray:
    """The coefficients of the first windows, of all that are closed."""
    return (np.arange(windows if closed is None else closed) < windows).astype(float)


@functools.cache
def prefix_forms(mechanism: RowMechanism) -> np.ndarray:
    """How much each row counts in each prefix at the end, (T, rows): what decoding makes of unit vectors."""
    if isinstance(mechanism, BinaryTree):
        return np.cumsum(over_time._inverse(mechanism, mechanism.windows), axis=0)
    decoder = decoder_of(mechanism, np.eye(mechanism.row_count).__getitem__)
    return np.array([decoder.estimate(prefix(last + 1, mechanism.windows)) for last in range(mechanism.windows)])


def errors(mechanism: RowMechanism) -> dict[str, float]:
    """Root mean square errors at the end, over all prefixes, single windows and ranges; exact."""
    forms = np.concatenate([np.zeros((1, mechanism.row_count)), prefix_forms(mechanism)])
    gram = forms @ forms.T * mechanism.squared_length
    of_ranges = np.diag(gram)[:, None] + np.diag(gram) - 2 * gram
    upper = of_ranges[np.triu_indices(len(forms), 1)]
    return {
        "prefixes": math.sqrt(np.diag(gram)[1:].mean()),
        "windows": math.sqrt(np.diag(of_ranges, 1).mean()),
        "ranges": math.sqrt(upper.mean()),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_inverts_encoding(kind: str) -> None:
    generator = np.random.default_rng(SEED)
    for windows in [*range(2, 71), 365]:
        exact = generator.integers(-(1 << 20), 1 << 20, (windows, 3))
        mechanism = mechanism_of(kind, windows)
        decoder = decoder_of(mechanism, encoded(mechanism, exact).__getitem__)
        for coefficients in (*np.eye(windows)[:: 1 + windows // 8], prefix(windows), generator.normal(size=windows)):
            np.testing.assert_allclose(decoder.estimate(coefficients), coefficients @ exact, rtol=1e-6, atol=1e-3)


def check_against_dense(mechanism: RowMechanism, closed: int) -> None:
    """Compare weights, estimates from noisy rows and variances with the pseudo-inverse of the dense matrix."""
    generator, count = np.random.default_rng(SEED), mechanism.first_row(closed)
    inverse = np.linalg.pinv(np.array(list(matrix_rows(mechanism)), dtype=float)[:count, :closed])
    rows = generator.normal(size=(count, 2))
    decoder = decoder_of(mechanism, rows.__getitem__)
    for coefficients in (prefix(closed), np.eye(closed)[closed // 2], generator.normal(size=closed)):
        weights = coefficients @ inverse
        scale = np.abs(weights).max()
        np.testing.assert_allclose(decoder.weights(coefficients), weights, rtol=1e-6, atol=1e-9 * scale)
        np.testing.assert_allclose(decoder.estimate(coefficients), weights @ rows, rtol=1e-6, atol=1e-9 * scale)
        expected = weights @ weights * mechanism.squared_length
        assert decoder.variance(coefficients) == pytest.approx(expected, rel=1e-9)
        assert np.abs(np.delete(weights, decoder.rows_used(coefficients))).max(initial=0) < 1e-9 * scale


@pytest.mark.one_fast_case
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("windows", [2, 3, 7, 16, 33, 64])
def test_estimates_are_those_of_dense_least_squares(kind: str, windows: int) -> None:
    for closed in {1, 2, windows // 2, windows - 1, windows}:
        check_against_dense(mechanism_of(kind, windows), closed)


def nodes_by_hand(closed: int) -> list[list[int]]:
    """The windows of each node, in the order in which rows of the binary tree come out."""
    nodes = [[*range(end - size, end)] for end in range(1, closed + 1) for size in (1, 2, 4, 8, 16) if end % size == 0]
    return nodes


def solved_by_hand(nodes: list[list[int]], wanted: list[Fraction]) -> list[Fraction]:
    """w = N (N'N)^-1 a in whole fractions, by elimination."""
    count = len(wanted)
    rows = [
        [Fraction(sum(i in node and j in node for node in nodes)) for j in range(count)] + [wanted[i]]
        for i in range(count)
    ]
    for i in range(count):
        rows[i] = [each / rows[i][i] for each in rows[i]]
        for j in range(count):
            if j != i:
                rows[j] = [one - rows[j][i] * other for one, other in zip(rows[j], rows[i], strict=True)]
    return [sum((rows[window][-1] for window in node), Fraction(0)) for node in nodes]


def check_tree(windows: int) -> None:
    mechanism = BinaryTree(windows)
    decoder = decoder_of(mechanism, np.zeros((mechanism.row_count, 1)).__getitem__)
    for closed in range(1, windows + 1):
        first, middle = prefix(closed // 2 + 1, closed), prefix(1, closed)[::-1] - prefix(closed // 3, closed)
        for wanted in (first, middle, np.arange(closed) % 3 - 1.0):
            expected = solved_by_hand(nodes_by_hand(closed), [Fraction(each) for each in wanted.tolist()])
            found = decoder.weights(wanted)
            np.testing.assert_allclose(found, [float(each) for each in expected], rtol=1e-12, atol=1e-12)
            assert [*decoder.rows_used(wanted)] == [number for number, each in enumerate(expected) if each]
            longest = max(sum(window in node for node in nodes_by_hand(windows)) for window in range(windows))
            squares = sum(each**2 for each in expected) * longest
            assert decoder.variance(wanted) == pytest.approx(float(squares), rel=1e-12)


def test_the_tree_is_read_as_by_elimination_in_fractions() -> None:
    for windows in (2, 5, 8, 13):
        check_tree(windows)


def test_rows_in_another_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(mechanism: RowMechanism) -> list[np.ndarray]:
        """A window, and the two windows that end with it."""
        rows = [*matrix_rows(mechanism)]
        return [rows[0], rows[2], rows[1], *rows[3:]]

    monkeypatch.setattr(over_time, "matrix_rows", swapped)
    over_time._inverse.cache_clear()
    with pytest.raises(AssertionError):
        check_tree(8)
    over_time._inverse.cache_clear()


def test_other_bins_than_the_encoder_had_are_found() -> None:
    rows = encoded(BinnedRoot(64, ratio=4), np.ones((64, 1), dtype=np.int64))
    estimate = RootDecoder(BinnedRoot(64, ratio=3), rows.__getitem__).estimate(prefix(64))
    assert abs(estimate - 64) > 0.01


@pytest.mark.parametrize("windows", [5, 64, 365])
def test_variances_of_prefixes_are_those_of_their_weights(windows: int) -> None:
    mechanism = BinnedRoot.over(windows)
    expected = np.square(prefix_forms(mechanism)).sum(axis=1) * mechanism.squared_length
    np.testing.assert_allclose(prefix_variances(mechanism, windows), expected, rtol=1e-9)
    np.testing.assert_allclose(prefix_variances(mechanism, 3)[:3], expected[:3], rtol=1e-9)


@pytest.mark.slow
def test_backward_substitution_agrees_over_a_year_of_hours() -> None:
    mechanism = BinnedRoot.over(8760)
    decoder, found = RootDecoder(mechanism, np.zeros((1, 1)).__getitem__), prefix_variances(mechanism, 8760)
    for last in range(0, 8760, 389):
        weights = decoder.weights(prefix(last + 1))
        assert found[last] == pytest.approx(weights @ weights * mechanism.squared_length, rel=1e-9)


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    ("windows", "mean", "most"), [(64, 2.14, 2.23), (365, 2.69, 2.78), (1024, 3.02, 3.12), (8760, 3.75, 4.1)]
)
def test_prefixes_of_the_binned_root_are_as_close_as_promised(windows: int, mean: float, most: float) -> None:
    variances = prefix_variances(BinnedRoot.over(windows), windows)
    assert math.sqrt(variances.mean()) <= mean
    assert math.sqrt(variances.max()) <= most


def test_windows_ranges_and_people_of_the_binned_root_are_as_close_as_promised() -> None:
    mechanism = BinnedRoot.over(1024)
    found = errors(mechanism)
    assert found["windows"] <= 1.95
    assert found["ranges"] <= 3.75
    assert found["prefixes"] * math.sqrt(mechanism.squared_reach(5)) <= 13.7


def test_least_squares_of_the_tree_are_as_close_as_the_study_found() -> None:
    found = errors(BinaryTree(1024))
    assert found["prefixes"] == pytest.approx(3.69, abs=0.02)
    assert found["windows"] == pytest.approx(2.58, abs=0.01)
    assert found["ranges"] == pytest.approx(4.65, abs=0.02)


def test_a_question_after_each_row_reads_few_rows() -> None:
    mechanism, reads = BinnedRoot.over(256), [0]
    rows = np.random.default_rng(SEED).normal(size=(mechanism.row_count, 2))

    def row(number: int) -> np.ndarray:
        reads[0] += 1
        return rows[number]

    decoder, at_once = decoder_of(mechanism, row), decoder_of(mechanism, rows.__getitem__)
    for closed in range(1, 257):
        np.testing.assert_allclose(decoder.estimate(prefix(closed)), at_once.estimate(prefix(closed)), rtol=1e-9)
    assert reads[0] <= 4 * mechanism.row_count


def test_later_rows_do_not_change_what_the_binned_root_says() -> None:
    mechanism = BinnedRoot.over(64)
    rows = np.random.default_rng(SEED).normal(size=(64, 2))
    decoder = RootDecoder(mechanism, rows.__getitem__)
    early = [decoder.estimate(prefix(closed)) for closed in range(1, 65)]
    for closed in range(1, 65):
        np.testing.assert_array_equal(decoder.estimate(prefix(closed, 64)), early[closed - 1])
        assert decoder.variance(prefix(closed, 64)) == decoder.variance(prefix(closed))


@pytest.mark.parametrize("room", [0, 5])
def test_answers_are_right_where_little_is_kept(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, generator = BinnedRoot.over(48), np.random.default_rng(SEED)
    rows = generator.normal(size=(mechanism.row_count, 2))
    roomy = decoder_of(mechanism, rows.__getitem__)
    questions = [prefix(48), prefix(30, 48) - prefix(10, 48), prefix(3, 48), generator.normal(size=48)]
    expected = [roomy.estimate(each) for each in questions]
    monkeypatch.setattr(over_time, "MAX_KEPT_BYTES", room * rows[0].nbytes)
    decoder = decoder_of(mechanism, rows.__getitem__)
    for question, answer in zip(questions, expected, strict=True):
        np.testing.assert_allclose(decoder.estimate(question), answer, rtol=1e-9, atol=1e-12)


def test_kept_arrays_stay_within_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_time, "MAX_KEPT_BYTES", 80)
    kept = KeptArrays()
    for name in range(5):
        kept.put(name, np.full(4, float(name)))
    assert [kept.get(name) is None for name in range(5)] == [True, True, True, False, False]


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("windows", "most"), [(1024, 45), (8760, 60)])
def test_few_sums_are_in_memory(windows: int, most: int) -> None:
    mechanism = BinnedRoot.over(windows)
    encoder, rows = RowEncoder(mechanism), np.zeros((1, 1))
    decoder, peaks = RootDecoder(mechanism, lambda _: rows[0]), [0, 0]
    for _ in range(windows):
        list(encoder.push(np.ones(1, dtype=np.int64)))
        decoder._decode_next()
        peaks = [max(peaks[0], len(encoder._sums)), max(peaks[1], len(decoder._sums))]
    assert max(peaks) <= most


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_real_noise_has_the_errors_of_theory(kind: str) -> None:
    """False alarm: 1e-9, by Laurent and Massart's bound for sums of squares of normal variables (2000, Lemma 1).

    The mean square of all prefixes is such a sum for each counter, with the eigenvalues of their covariance.
    """
    counters, sigma_squared, mechanism = 60_000, 400, mechanism_of(kind, 64)
    noise = Fraction(sigma_squared * mechanism.squared_length)
    rows = [add_noise(np.zeros(counters, dtype=np.int64), noise).astype(float) for _ in range(mechanism.row_count)]
    decoder = decoder_of(mechanism, rows.__getitem__)
    squares = [np.square(decoder.estimate(prefix(last + 1, 64))).mean() for last in range(64)]
    forms = prefix_forms(mechanism)
    values = np.linalg.eigvalsh(forms @ forms.T)
    share, exponent = values / values.sum(), math.log(2e9)
    margin = 2 * math.sqrt(float(share @ share) * exponent / counters) + 2 * share.max() * exponent / counters
    assert margin < 0.04  # 2 % in sigma
    variances = [decoder.variance(prefix(last + 1, 64)) for last in range(64)]
    assert np.mean(squares) == pytest.approx(sigma_squared * np.mean(variances), rel=margin)
    assert np.mean(squares) != pytest.approx(sigma_squared * np.mean(variances) * 1.08, rel=margin)
