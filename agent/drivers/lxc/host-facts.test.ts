import { expect } from 'chai'
import { findCgroupHindrance } from './host-facts.js'

describe('the reason why LXC cannot limit guests', () => {
  const [root, unified, systemd] = ['/sys/fs/cgroup', '/sys/fs/cgroup/unified', '/sys/fs/cgroup/systemd']
  for (const [what, version, hierarchies, tree, said] of [
    ['cgroup v2', 2, [root], root, undefined],
    ['cgroup v1 with a v2 tree that has no controllers', 1, ['/sys/fs/cgroup/memory', unified], unified, undefined],
    ['cgroup v1 without a v2 tree', 1, ['/sys/fs/cgroup/memory'], undefined, 'no cgroup2 tree'],
    ['cgroup v2 with a remaining v1 hierarchy', 2, [systemd, unified], unified, `${systemd} of cgroup v1 is mounted`],
  ] as const)
    it(`is ${said === undefined ? 'absent' : `“${said}”`} for ${what}`, () => {
      const layout = { version, hierarchies, controllers: new Map(), ...(tree && { unified: tree }) }
      const hindrance = findCgroupHindrance(layout)
      if (said === undefined) expect(hindrance).to.equal(undefined)
      else expect(hindrance).to.contain(said)
    })
})
