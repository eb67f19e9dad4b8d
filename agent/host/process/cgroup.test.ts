import { expect } from 'chai'
import { execFileSync, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { parseCgroupLayout, readCgroupLayout, readTreePids, removeGroupTree } from './cgroup.js'

const mount = (path: string, type: string, options: string): string =>
  `30 24 0:26 / ${path} rw,relatime shared:4 - ${type} ${type} ${options}`

describe('the parser of cgroups in mountinfo', () => {
  it('recognizes version 2', () => {
    const layout = parseCgroupLayout(mount('/sys/fs/cgroup', 'cgroup2', 'rw,nsdelegate'))
    expect(layout.version).to.equal(2)
    expect(layout.hierarchies).to.deep.equal(['/sys/fs/cgroup'])
    expect(layout.controllers.get('memory')).to.equal('/sys/fs/cgroup')
  })

  it('treats a hybrid host as version 1, and accepts several controllers in one hierarchy', () => {
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
    ['with cgroup_no_v1=memory', ['cpu', 'pids']],
    ['if the kernel has no v1 memory controller', ['cpu,cpuacct', 'freezer']],
    ['with cgroup_no_v1=all and systemd’s own hierarchy', ['name=systemd']],
  ] as const)
    it(`recognizes version 2, and lists remaining v1 hierarchies, ${what}`, () => {
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

  it('ignores v1 hierarchies that are not mounted below /sys/fs/cgroup', () => {
    expect(() => parseCgroupLayout(mount('/mnt/x', 'cgroup', 'rw,memory'))).to.throw('no mounted cgroup hierarchy')
  })
})

describe('a tree of cgroups that is deeper than the longest possible path', function () {
  const layout = readCgroupLayout()
  const top = `${layout.controllers.get('pids') ?? ''}/btest-cgroup-tree`
  const levels = 2000
  // Each name has 200 characters, so the path of twenty groups is too long. Python descends by relative paths.
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

  it('can be read up to a limit or completely, and can be removed', async () => {
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
