import { spawnSync } from 'node:child_process'
import { expect } from 'chai'
import { listLargeFiles, planExcludes } from './large-files.js'

describe('large files of a backup', () => {
  const layout = [
    'F',
    'small',
    '70000',
    'H',
    '0',
    '65536',
    'F',
    'var/disk',
    '1000000',
    'M',
    '33188',
    '0',
    '0',
    '1',
    '2',
    '1',
    '6e',
    '76',
    'H',
    '0',
    '900000',
    'F',
    'copy',
    '1000000',
    'M',
    '33188',
    '0',
    '0',
    '1',
    '2',
    '0',
    'S',
    '0',
    '1000000',
    'M',
    '0',
    'F',
    '\xff',
    '1000000',
    'M',
    '33188',
    '0',
    '0',
    '1',
    '2',
    '0',
    'C',
    '0',
    '4096',
    '',
  ].join('\0')

  it('are found in the file layout with position, path and size if their names are valid UTF-8', async () =>
    expect(await listLargeFiles(layout)).to.deep.equal([
      { index: 1, offset: layout.indexOf('F\0var/disk'), path: 'var/disk', sizeBytes: 1_000_000 },
      { index: 2, offset: layout.indexOf('F\0copy'), path: 'copy', sizeBytes: 1_000_000 },
    ]))
  for (const [what, damaged] of [
    ['the layout contains an unknown field', 'X\0Y\0'],
    ['a range precedes the first file', 'H\x000\x001\0'],
    ['the layout ends within a field', layout.slice(0, -2)],
    ['the layout ends within a range', layout.split('\0').slice(0, -2).join('\0') + '\0'],
    ['a file has too many attributes', `F\0f\x009\0M\x001\x000\x000\x001\x002\x0065537${'\0'.repeat(131_075)}`],
    ['the number of attributes is impossible', 'F\0f\x009\0M\x001\x000\x000\x001\x002\x001e99\0'],
  ] as const)
    it(`are not found in a file layout that is damaged because ${what}`, async () =>
      expect(await listLargeFiles(damaged)).to.equal(undefined))
  it('are found in a long file layout without blocking other work', async () => {
    let turns = 0
    const count = setInterval(() => turns++, 0)
    expect(await listLargeFiles(layout + ['H', '0', '4096', ''].join('\0').repeat(200_000))).to.have.length(2)
    clearInterval(count)
    expect(turns).to.be.at.least(2)
  })
  it('are not found in an empty list of files', async () => expect(await listLargeFiles('')).to.deep.equal([]))
  it('are limited in number so that the kernel accepts their paths as arguments of restic', async () => {
    const folder = Array.from({ length: 16 }, () => '*'.repeat(250)).join('/')
    const files = Array.from({ length: 500 }, (_, index) =>
      ['F', `${folder}/${index}`, '1000000', 'M', '0', '0', '0', '1', '2', '0', 'H', '0', '900000', ''].join('\0'),
    )
    const large = (await listLargeFiles(files.join('')))!
    expect(large).to.have.lengthOf.above(50)
    const { status, error } = spawnSync('true', planExcludes('volume', large))
    expect(error).to.equal(undefined)
    expect(status).to.equal(0)
  })
  it('are excluded from a restore by their exact paths with escaped special characters', () =>
    expect(planExcludes('volume', [{ path: 'a*[b]\\c' }]).at(-1)).to.equal('/volume/a\\*\\[b\\]\\\\c'))
  it('are excluded from a restore, together with everything outside the directory of the volume', () => {
    const patterns = planExcludes('volume', []).filter((word) => word !== '--exclude')
    const matches = (name: string): boolean =>
      patterns.some((pattern) => new RegExp(`^${pattern.replaceAll('?', '.').replaceAll('*', '.*')}$`).test(name))
    expect(matches('/volume')).to.equal(false)
    for (const name of ['/v', '/layout', '/volumes', '/Volume', '/volumf', '/planted'])
      expect(matches(name)).to.equal(true)
  })
})
