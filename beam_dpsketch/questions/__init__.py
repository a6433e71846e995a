"""Questions to releases and their answers as plain rows, for the command, for rows in Beam, and for plots."""

from beam_dpsketch.questions.ask import KINDS, Ask, Kind, even_values
from beam_dpsketch.questions.columns import PRIVACY_COLUMNS, AnswerType, answer_columns, privacy_fields

__all__ = ["KINDS", "PRIVACY_COLUMNS", "AnswerType", "Ask", "Kind", "answer_columns", "even_values", "privacy_fields"]
