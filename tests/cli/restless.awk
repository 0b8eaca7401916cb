# restless.awk - of a profile's text: gives it four readings of a sentinel that moved by 50 % while the F were measured, or
# what matches `when`.
BEGIN { if (when == "") when = "\"kind\": \"F\"" }
/^{"what": "F of layers=1"/ {
  if (!/\],$/)
    next
  for (i = 0; i < 4; i++)
    printf "{\"what\": \"F of layers=1\", \"median_ns\": %d, \"n\": 10, \"taken\": \"2026-01-01T00:00:%d0Z\"}%s\n",
      i == 2 ? 150000 : 100000, i, i < 3 ? "," : "],"
  next
}
{
  sub(/"taken": "[^"]*"/, $0 ~ when ? "\"taken\": \"2026-01-01T00:00:15Z\"" : "\"taken\": \"2026-01-01T00:00:05Z\"")
  print
}
