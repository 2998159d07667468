"""How two queue pairs become a connection: exchange of records, bring-up, drain, recovery."""
