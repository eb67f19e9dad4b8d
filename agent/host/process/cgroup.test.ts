import { expect } from 'chai'
import { execFileSync, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { parseCgroupLayout, readCgroupLayout, readTreePids, removeGroupTree } from './cgroup.js'

const mount = (path: string, type: string, options: string): string =>
  `30 24 0:26 / ${path} rw,relatime shared:4 - ${type} ${type} ${options}`

describe('parseCgroupLayout', () => {
  it('reads v2', () => {
    const layout = parseCgroupLayout(mount('/sys/fs/cgroup', 'cgroup2', 'rw,nsdelegate'))
    expect(layout.version).to.equal(2)
    expect(layout.hierarchies).to.deep.equal(['/sys/fs/cgroup'])
    expect(layout.controllers.get('memory')).to.equal('/sys/fs/cgroup')
  })

  it('reads hybrid as v1; controllers may share a hierarchy', () => {
    const layout = parseCgroupLayout(
      [
        mount('/sys/fs/cgroup', 'tmpfs', 'rw'),
        mount('/sys/fs/cgroup/memory', 'cgroup', 'rw,memory'),
        mount('/sys/fs/cgroup/cpu,cpuacct', 'cgroup', 'rw,cpu,cpuacct'),
        mount('/sys/fs/cgroup/systemd', 'cgroup', 'rw,name=systemd'),
        mount('/sys/fs/cgroup/unified', 'cgroup2', 'rw'),
      ].join('\n'),
    )
    expect(layout.version).to.equal(1)
    expect(layout.hierarchies).to.have.length(4)
    expect(layout.controllers.get('cpuacct')).to.equal('/sys/fs/cgroup/cpu,cpuacct')
    expect(layout.controllers.get('io')).to.equal(undefined)
  })

  for (const [what, left] of [
    ['cgroup_no_v1=memory', ['cpu', 'pids']],
    ['a kernel without memory in v1', ['cpu,cpuacct', 'freezer']],
    ['cgroup_no_v1=all with systemd’s own', ['name=systemd']],
  ] as const)
    it(`reads v2 with remaining v1 hierarchies in which guests have groups: ${what}`, () => {
      const layout = parseCgroupLayout(
        [
          ...left.map((name) => mount(`/sys/fs/cgroup/${name}`, 'cgroup', `rw,${name}`)),
          mount('/sys/fs/cgroup/unified', 'cgroup2', 'rw'),
          mount('/sys/fs/cgroup/again', 'cgroup2', 'rw'),
        ].join('\n'),
      )
      expect(layout.version).to.equal(2)
      expect(layout.controllers.get('memory')).to.equal('/sys/fs/cgroup/unified')
      expect(layout.hierarchies).to.deep.equal([
        ...left.map((name) => `/sys/fs/cgroup/${name}`),
        '/sys/fs/cgroup/unified',
      ])
    })

  it('ignores v1 hierarchies mounted elsewhere, as in a guest', () => {
    expect(() => parseCgroupLayout(mount('/mnt/x', 'cgroup', 'rw,memory'))).to.throw('no cgroup hierarchy')
  })
})

describe('a cgroup tree deeper than the longest path', function () {
  const layout = readCgroupLayout()
  const top = `${layout.controllers.get('pids') ?? ''}/btest-cgroup-tree`
  const levels = 2000
  // Names of 200 characters, so that a path of twenty is too long; descends relatively, as a guest would.
  const nest = `
import os, sys
os.makedirs(sys.argv[1], exist_ok=True)
os.chdir(sys.argv[1])
for level in range(int(sys.argv[2])):
    name = "deep" * 50
    os.mkdir(name)
    os.chdir(name)
with open("cgroup.procs", "w") as procs:
    procs.write(sys.argv[3])
`
  const cleanUp = (): Promise<void> => removeGroupTree(top)

  before(cleanUp)
  after(cleanUp)

  it('is read, within limits on request, and removed', async () => {
    const child = spawn('sleep', ['60'], { stdio: 'ignore' })
    const ended = new Promise((resolve) => child.once('exit', resolve))
    try {
      execFileSync('/usr/bin/python3', ['-c', nest, top, String(levels), String(child.pid)])
      expect(readTreePids(top)).to.deep.equal([child.pid])
      expect(readTreePids(top, { groups: levels, pids: 10 })).to.deep.equal([])
      const busy = await removeGroupTree(top).catch((error: NodeJS.ErrnoException) => error.code)
      expect(busy).to.equal('EBUSY')
    } finally {
      child.kill('SIGKILL')
      await ended
    }
    let turns = 0
    const counting = setInterval(() => (turns += 1), 1)
    await removeGroupTree(top)
    clearInterval(counting)
    expect(existsSync(top)).to.equal(false)
    expect(turns).to.be.above(2)
  })
})
