import { expect } from 'chai'
import { parseCgroupLayout } from './cgroup.js'

const mount = (path: string, type: string, options: string): string =>
  `30 24 0:26 / ${path} rw,relatime shared:4 - ${type} ${type} ${options}`

describe('parseCgroupLayout', () => {
  it('v2', () => {
    const layout = parseCgroupLayout(mount('/sys/fs/cgroup', 'cgroup2', 'rw,nsdelegate'))
    expect(layout.version).to.equal(2)
    expect(layout.hierarchies).to.deep.equal(['/sys/fs/cgroup'])
    expect(layout.controllers.get('memory')).to.equal('/sys/fs/cgroup')
  })

  it('hybrid counts as v1; controllers may share a hierarchy', () => {
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

  it('v1 hierarchies mounted elsewhere, as in a guest, are not the host’s', () => {
    expect(() => parseCgroupLayout(mount('/mnt/x', 'cgroup', 'rw,memory'))).to.throw('no cgroup hierarchy')
  })
})
