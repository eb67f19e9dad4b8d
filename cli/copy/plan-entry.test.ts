import { expect } from 'chai'
import { planEntry, type ArchiveEntry } from './plan-entry.js'

const file = (path: string, fields: Partial<ArchiveEntry> = {}): ArchiveEntry => ({ path, type: 'File', ...fields })
const link = (path: string, linkpath: string): ArchiveEntry => ({ path, type: 'SymbolicLink', linkpath })

describe('an archive entry that berth cp gets from a guest', () => {
  const one = { name: 'www', isRecursive: false }
  const tree = { name: 'www', isRecursive: true }
  const outside = { do: 'skip', reason: 'it is a link that leads out of the copied directory' } as const

  for (const [name, entry, step] of [
    ['a file', file('./www/a/b', { mode: 0o640 }), { do: 'file', path: ['a', 'b'], mode: 0o640 }],
    ['a file that is setuid and setgid', file('www/a', { mode: 0o6755 }), { do: 'file', path: ['a'], mode: 0o755 }],
    [
      'the directory itself',
      { path: './www/', type: 'Directory', mode: 0o4550 },
      { do: 'directory', path: [], mode: 0o750 },
    ],
    ['a link to a neighbour', link('www/a/b', 'c'), { do: 'link', path: ['a', 'b'], to: 'c' }],
    ['a link to a directory above', link('www/a/b', '../c/d'), { do: 'link', path: ['a', 'b'], to: '../c/d' }],
    ['a link to an absolute path', link('www/a', '/etc/passwd'), outside],
    ['a link that leads out of the directory', link('www/a/b', '../../c'), outside],
    ['a link that leads out through another link', link('www/a/b', 'c/../../..'), outside],
    ['the directory itself as a link', link('www', 'other'), outside],
    ['a link without a target', link('www/a', ''), outside],
    ['a hard link', { path: 'www/b', type: 'Link', linkpath: './www/a' }, { do: 'copy', path: ['b'], from: ['a'] }],
    [
      'a hard link to a file outside',
      { path: 'www/b', type: 'Link', linkpath: '/etc/passwd' },
      { do: 'skip', reason: 'it is a link to a file that was not copied' },
    ],
    ...['CharacterDevice', 'BlockDevice', 'FIFO'].map((type) => [
      `a ${type}`,
      { path: 'www/d', type },
      { do: 'skip', reason: 'it is neither a file nor a directory nor a link' },
    ]),
  ] as [string, ArchiveEntry, object][])
    it(`that is ${name} leads to the step “${(step as { do: string }).do}”`, () =>
      expect(planEntry(entry, tree)).to.deep.equal(step))

  for (const path of [
    '/www/a',
    '../www',
    'www/../a',
    'www/a/..',
    'www//a',
    'www/./a',
    'other',
    '',
    '.',
    'www/a\0b',
    '././www',
  ])
    it(`is refused with the path ${JSON.stringify(path)}`, () =>
      expect(() => planEntry(file(path), tree)).to.throw('which was not requested'))

  it('is refused if a single file was requested and the entry is not this file', () => {
    expect(planEntry(file('./www', { mode: 0o600 }), one)).to.deep.equal({ do: 'file', path: [], mode: 0o600 })
    for (const entry of [file('www/a'), link('www', '/etc'), { path: 'www', type: 'Directory' }])
      expect(() => planEntry(entry, one)).to.throw('which was not requested')
  })
})
