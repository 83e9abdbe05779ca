#!/bin/sh
echo "this must never run"
