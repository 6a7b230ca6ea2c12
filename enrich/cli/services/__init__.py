"""The commands of programs that keep running - `run` starts one, `status` asks its page - and what they share."""
