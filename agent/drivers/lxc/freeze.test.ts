import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import type { CgroupLayout } from '../../host/process/cgroup.js'
import { canFreeze, freezeGuest, thawContainer } from './freeze.js'

/** For each cgroup version: the file for requests (`asked`), the file for the state (`answer`), and their contents. */
const versions = {
  1: {
    asked: 'freezer.state',
    answer: 'freezer.state',
    frozen: 'FROZEN',
    held: 'FROZEN\n',
    thawed: 'THAWED',
  },
  2: {
    asked: 'cgroup.freeze',
    answer: 'cgroup.events',
    frozen: '1',
    held: 'populated 1\nfrozen 1\n',
    thawed: '0',
  },
} as const

describe('freezing a guest', () => {
  for (const version of [1, 2] as const) {
    const { asked, answer, held, thawed } = versions[version]
    let top: string
    let group: string
    let layout: CgroupLayout

    const write = (file: string, text: string): void => writeFileSync(join(group, file), text)
    const read = (file: string): string => readFileSync(join(group, file), 'utf8')

    describe(`with cgroup v${version}`, () => {
      beforeEach(() => {
        top = mkdtempSync(join(tmpdir(), 'btest-freeze-'))
        group = join(top, 'lxc.payload.bt-1')
        mkdirSync(group)
        layout = { version, hierarchies: [top], unified: top, controllers: new Map([['freezer', top]]) }
        if (version === 2) write('cgroup.events', 'populated 1\nfrozen 0\n')
        write(asked, `${thawed}\n`)
      })
      afterEach(() => rmSync(top, { recursive: true }))

      it('waits until the kernel reports that the guest is frozen, and can be undone', async () => {
        if (version === 2) setTimeout(() => write(answer, held), 20)
        expect(await freezeGuest(layout, 'bt-1', 5000)).to.equal(true)
        expect(read(asked).trim()).to.equal(versions[version].frozen)
        thawContainer(layout, 'bt-1')
        expect(read(asked)).to.equal(thawed)
      })

      // Skipped for cgroup v1: the test's file contains FROZEN at once, whereas the kernel's contains FREEZING first.
      if (version === 2)
        it('is undone if the kernel does not report in time that the guest is frozen', async () => {
          expect(await freezeGuest(layout, 'bt-1', 50)).to.equal(false)
          expect(read(asked)).to.equal(thawed)
        })

      it('does nothing if the guest does not exist, and thawing does nothing either', async () => {
        expect(await freezeGuest(layout, 'bt-2', 1000)).to.equal(false)
        thawContainer(layout, 'bt-2')
      })
    })
  }

  it('needs the freezer hierarchy with cgroup v1, but not with cgroup v2', () => {
    const layout = { hierarchies: ['/x'], controllers: new Map([['memory', '/x']]) }
    expect([canFreeze({ ...layout, version: 1 }), canFreeze({ ...layout, version: 2 })]).to.deep.equal([false, true])
  })
})
