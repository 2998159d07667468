"""What a person wants to know beside the rules: states in everyday pictures, why an attribute is needed, folklore.

All of it is data with its sources; nothing here judges. What follows from the table, from the attributes or from the
judge's own rules is asked of them (:mod:`.topics`), and not written a second time.
"""
