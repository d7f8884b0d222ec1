"""What an explorer's program asks of the allocator at any setting, learned from runs: requests and frees in letters.

`steps` tells a run as steps; `folding` finds what repeats in them; `forms` finds sizes in letters; `learning` makes a
sequence of several runs, and finds the conditions under which it holds; `stored` does so for an explorer's page.
"""
