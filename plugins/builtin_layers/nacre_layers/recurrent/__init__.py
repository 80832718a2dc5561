"""Recurrent layers: RNN, GRU and LSTM over whole sequences."""
