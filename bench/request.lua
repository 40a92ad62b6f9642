-- The request wrk sends to every arm: the same bytes, with the caller's token.
wrk.headers["Authorization"] = "Bearer " .. os.getenv("TOKEN")
