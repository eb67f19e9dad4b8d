import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { expect } from 'chai'
import { scratchDirectory } from '../../../test/support/scratch.js'
import { boundGroups } from './bound-groups.js'

describe('cgroups of a guest that an older agent started', () => {
  const scratch = scratchDirectory('btest-bound-groups')
  const [memory, unified] = [`${scratch.path}/memory`, `${scratch.path}/unified`]
  const layout = { version: 1, hierarchies: [memory, unified], unified, controllers: new Map() } as const
  const groupOf = (path: string): string => `${path}/lxc.payload.bt-1`
  const modeOf = (path: string): number => statSync(path).mode & 0o777

  before(() => {
    for (const path of [memory, unified]) mkdirSync(groupOf(path), { recursive: true })
    writeFileSync(`${groupOf(memory)}/cgroup.procs`, '')
    for (const path of [groupOf(memory), groupOf(unified)]) chmodSync(path, 0o775)
  })
  after(() => scratch.wipe())

  it('are no longer writable for their Unix group in cgroup v1, and get a limit on their subgroups in v2', () => {
    expect([boundGroups(layout, 'bt-1'), boundGroups(layout, 'bt-1')]).to.deep.equal([true, false])
    expect([modeOf(groupOf(memory)), modeOf(groupOf(unified))]).to.deep.equal([0o755, 0o775])
    expect(readFileSync(`${groupOf(unified)}/cgroup.max.descendants`, 'utf8')).to.equal('512')
  })

  it('are not created again if they no longer exist', () => {
    expect(boundGroups(layout, 'bt-2')).to.equal(false)
    expect(existsSync(`${unified}/lxc.payload.bt-2`)).to.equal(false)
  })
})
