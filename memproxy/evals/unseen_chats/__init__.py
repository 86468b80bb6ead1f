"""Everyday chats of invented people and what should be recalled of them: held out, never used to fit or tune."""
