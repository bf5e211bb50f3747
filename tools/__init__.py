"""Programs that developers run by hand; nothing of the product imports them."""
