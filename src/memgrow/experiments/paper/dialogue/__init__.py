"""The paper's second task, dialogue: from films' lines to a help channel, Table 5 and the samples of Table 6."""
