import { appendFileSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { expect } from 'chai'
import { openLxcHost } from '../support/host/lxc-host.js'
import { useLxcHost } from '../support/host/lxc-lab.js'
import { waitFor } from '../support/wait.js'
import { sh } from '../support/sh.js'

const prefix = 'btw'
describe('the lxc driver', function () {
  const lab = useLxcHost({ name: 'btest-lxc-own', prefix, subnet: '10.214.5' })
  const { observed, prepared, started } = lab
  const signal = new AbortController().signal

  describe('when it removes all its guests', () => {
    it('leaves no trace of running and stopped guests, nor of itself', async () => {
      const other = await openLxcHost({ name: 'btest-lxc-all', prefix: 'btm', subnet: '10.214.7' })
      try {
        expect(other.driver.hasLxcfs(), 'it works without lxcfs').to.equal(false)
        for (const start of [true, false]) {
          const machine = other.machine()
          other.clone(machine)
          await other.driver.configure(machine)
          if (start) await other.driver.start(machine, signal)
        }
        await other.driver.removeAll()
        expect(sh('find', '/sys/fs/cgroup', '-name', 'lxc.*btm*')).to.equal('')
        expect(readdirSync('/sys/class/net').filter((name) => /^btm\d/.test(name))).to.deep.equal([])
        expect(readdirSync(`${other.path}/state`).concat(readdirSync(`${other.path}/run`))).to.deep.equal([])
        await other.driver.removeAll()
      } finally {
        await other.close()
      }
    })
  })

  describe('if the LXC name of a guest belongs to a foreign guest', () => {
    const refusal = (act: Promise<unknown>): Promise<string> =>
      act.then(
        () => 'done',
        (error: { code?: string }) => error.code ?? 'no code',
      )

    for (const [what, hide] of [
      ['if it has a configuration file', false],
      ['even if its configuration file is missing', true],
    ] as const)
      it(`does not change the foreign guest ${what}`, async () => {
        const machine = await started()
        const before = await observed(machine)
        const config = `${lab.host.path}/state/lxc/${prefix}-${machine.id}/config`
        const kept = readFileSync(config, 'utf8')
        if (hide) rmSync(config)
        const driver = await lab.host.reopen()
        const uuid = machine.uuid.replace(/^.{8}/, '00000000')
        const other = { ...machine, uuid, volume: machine.volume.replace(machine.uuid, uuid) }
        try {
          for (const act of [
            () => driver.initialize(other, {}, other.volume),
            () => driver.configure(other),
            () => driver.start(other, signal),
          ])
            expect(await refusal(act())).to.equal('guest_foreign')
          if (!hide) expect(await refusal(driver.findConsole(other, 'shell'))).to.equal('guest_foreign')
          await driver.stop(other, { timeoutMs: 1000, signal })
          await driver.kill(other)
          await driver.delete(other)
        } finally {
          driver.close()
          writeFileSync(config, kept, { mode: 0o600 })
        }
        expect(await observed(machine)).to.deep.include(before)
        expect(existsSync(machine.volume)).to.equal(true)
      })
  })

  describe('for its own guests', () => {
    it('refuses to delete a running guest, and deletes a stopped guest completely', async () => {
      const machine = await started()
      expect(await lab.host.driver.listTraces()).to.deep.equal([machine.uuid])
      const refused = await lab.host.driver.delete(machine).catch((error: { code: string }) => error.code)
      expect(refused).to.equal('guest_running')
      await lab.host.driver.kill(machine)
      await lab.host.driver.kill(machine)
      await lab.host.driver.delete(machine)
      await lab.host.driver.delete(machine)
      await waitFor(async () => (await lab.host.driver.listTraces()).length === 0, { what: 'no traces' })
    })

    it('has configuration files that only root can read, and replaces these files atomically', async () => {
      const machine = await prepared()
      const path = `${lab.host.path}/state/lxc/${prefix}-${machine.id}`
      expect(statSync(`${path}/config`).mode & 0o777).to.equal(0o600)
      const { ino } = statSync(`${path}/config`)
      appendFileSync(`${path}/config`, 'lxc.rootfs.path = dir:/\n')
      await lab.host.driver.configure(machine)
      expect(statSync(`${path}/config`).ino).to.not.equal(ino)
      expect(readFileSync(`${path}/config`, 'utf8')).to.not.include('dir:/\n')
      expect(readdirSync(path)).to.deep.equal(['config'])
    })
  })
})
