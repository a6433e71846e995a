"""Questions to releases with answers as plain rows, for the command line, pipelines, rows and plots."""

from beam_dpsketch.answers.questions.ask import PRIVACY_COLUMNS, Ask, answer_columns, privacy_fields
from beam_dpsketch.answers.questions.kinds import QUESTIONS, Kind, even_values

__all__ = ["PRIVACY_COLUMNS", "QUESTIONS", "Ask", "Kind", "answer_columns", "even_values", "privacy_fields"]
