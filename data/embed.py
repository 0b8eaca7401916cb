#!/usr/bin/env python3
"""embed.py LIST TABLE OUTPUT DEPFILE - writes the files that LIST names, a line each, as a table of C texts (sim/base/files.h)."""
import os, sys

def literal(line):
    return '"' + ''.join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f'\\{b:03o}' for b in line) + '"'

listing, table, output, depfile = sys.argv[1:]
folder = os.path.dirname(listing)
names = open(listing).read().split()
with open(output, 'w') as c:
    c.write(f'#include "base/files.h"\n\nextern const PsDataFile {table}[];\nconst PsDataFile {table}[] = {{\n')
    for name in names:
        text = open(os.path.join(folder, name), 'rb').read()
        c.write(f'  {{ "{name}",\n' + ''.join(f'    {literal(line)}\n' for line in text.splitlines(True)) + '  },\n')
    c.write('  { NULL, NULL },\n};\n')
with open(depfile, 'w') as rule:
    rule.write(f'{output}: ' + ' '.join(os.path.join(folder, name) for name in names) + '\n')
