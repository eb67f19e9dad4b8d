import { expect } from 'chai'
import { spawnSync } from 'node:child_process'
import { unitFilesOf, unitNameOf, unitTextOf } from './plan-unit.js'

describe('the unit of a swap file', () => {
  for (const [path, name] of [
    ['/swapfile', 'swapfile.swap'],
    ['/var/lib/berth/agent/swap/swapfile.2', 'var-lib-berth-agent-swap-swapfile.2.swap'],
    ['/var/lib/berth-two/s', 'var-lib-berth\\x2dtwo-s.swap'],
    ['/.hidden/a b', '\\x2ehidden-a\\x20b.swap'],
    ['/ä%', '\\xc3\\xa4\\x25.swap'],
  ] as const)
    it(`has the name that systemd requires: ${name} for ${path}`, function () {
      expect(unitNameOf(path)).to.equal(name)
      const { stdout, error } = spawnSync('systemd-escape', ['--path', '--suffix=swap', path], {
        encoding: 'utf8',
      })
      if (error) return this.skip() // the host has no systemd to compare with
      expect(stdout.trim()).to.equal(name)
    })

  it('is linked to swap.target, and escapes `%` in the path', () => {
    expect(unitFilesOf('/units', '/a/b')).to.deep.equal({
      unit: '/units/a-b.swap',
      link: '/units/swap.target.wants/a-b.swap',
      target: '../a-b.swap',
    })
    const text = unitTextOf('/a/50%n')
    expect(text)
      .to.contain('\nWhat=/a/50%%n\n')
      .and.not.match(/[^%]%n/)
    expect(text).to.contain('[Swap]').and.to.contain('WantedBy=swap.target')
  })
})
