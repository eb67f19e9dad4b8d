import { expect } from 'chai'
import { listLargeFiles, planExcludes } from './plan-large-files.js'

describe('large files of a backup', () => {
  const layout = [
    ...['F', 'small', '70000', 'H', '0', '65536'],
    ...['F', 'var/disk', '1000000', 'M', '33188', '0', '0', '1', '2', '1', '6e', '76', 'H', '0', '900000'],
    ...['F', 'copy', '1000000', 'M', '33188', '0', '0', '1', '2', '0', 'S', '0', '1000000', 'M', '0'],
    ...['F', '\xff', '1000000', 'M', '33188', '0', '0', '1', '2', '0', 'C', '0', '4096', ''],
  ].join('\0')

  it('are found by their index in the layout, unless their name cannot be an argument', () =>
    expect(listLargeFiles(layout)).to.deep.equal([
      { index: 1, path: 'var/disk', sizeBytes: 1_000_000 },
      { index: 2, path: 'copy', sizeBytes: 1_000_000 },
    ]))
  it('are not found in a damaged layout', () => expect(listLargeFiles('X\0Y\0')).to.deep.equal([]))
  it('are excluded by their exact names', () =>
    expect(planExcludes('volume', [{ path: 'a*[b]\\c' }]).at(-1)).to.equal('/volume/a\\*\\[b\\]\\\\c'))
  it('are excluded together with everything outside the tree', () => {
    const patterns = planExcludes('volume', []).filter((word) => word !== '--exclude')
    const matches = (name: string): boolean =>
      patterns.some((pattern) =>
        new RegExp(`^${pattern.replaceAll('?', '.').replaceAll('*', '.*')}$`).test(name),
      )
    expect(matches('/volume')).to.equal(false)
    for (const name of ['/v', '/layout', '/volumes', '/Volume', '/volumf', '/planted'])
      expect(matches(name)).to.equal(true)
  })
})
