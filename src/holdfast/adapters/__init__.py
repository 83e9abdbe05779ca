"""Adapters: the interfaces by which agent frameworks start processes, with runs behind them. One extra for each."""
