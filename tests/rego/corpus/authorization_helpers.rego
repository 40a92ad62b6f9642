package corpus.authorization.helpers

shout(x) := upper(x)
