"""What the official kits do, oddities included: read from VLMEvalKit (August 2026) without its judges. Where a kit asks
a judge to extract the answer, the response itself stands for what the judge would have said; nothing is drawn at random
and nothing is evaluated."""
