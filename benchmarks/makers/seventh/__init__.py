"""The seventh maker: plain houses, hinges with two lines that may begin far beyond the centre, and tunnels.

Written from sections 3 and 4 of the design alone. A seed gives the same bytes as on the day its figures were made, so
the order of random draws is part of what is said here: change none. The cities of docs/pretrained.md have 3,000 houses:
`xband-1` (kind xband, seed 71), `sentinel-1` (sentinel, 72), `sentinel-2` (sentinel_12_days, 73) and `sentinel_real-1`
(sentinel_real, 74, the two EGMS L2b products of Ustica: track 117, then 22).
"""
