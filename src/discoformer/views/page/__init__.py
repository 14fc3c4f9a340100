"""The live page: a fitted density as numbers, the JavaScript that answers for it, and the page around it."""
