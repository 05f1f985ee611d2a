"""The paper's section 4, runnable."""
