import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { expect } from 'chai'
import type { StopCause } from '../../agent/drivers/contract.js'
import type { Machine } from '../../agent/drivers/machine.js'
import { networkLimits } from '../../shared/network-limits.js'
import { useLxcHost } from '../support/host/lxc-lab.js'
import { patienceMs, waitFor } from '../support/wait.js'
import { sh } from '../support/sh.js'
import { deadlineOf } from '../support/promised-time.js'

const prefix = 'btl'
describe('the lxc driver', function () {
  const lab = useLxcHost({ name: 'btest-lxc-power', prefix, subnet: '10.214.8' })
  const { attach, booted, ends, observed, prepared, started, traces } = lab
  const signal = new AbortController().signal

  function parentOf(pid: number): number {
    return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
  }

  function replaceInit(machine: Machine, script: string): void {
    const init = `${machine.volume}/usr/sbin/init`
    rmSync(init, { force: true })
    writeFileSync(init, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  }

  /** Runs systemctl in the guest, as its owner does. The command must return at once, even without logind. */
  function systemctl(machine: Machine, verb: 'poweroff' | 'reboot'): void {
    const { error } = spawnSync('lxc-attach', attach(machine, 'systemctl', verb), { timeout: 60_000 })
    expect(error, verb).to.equal(undefined)
  }

  describe('when it starts a guest', () => {
    it('starts the guest only once, even for two concurrent agents', async () => {
      const machine = await prepared()
      const other = await lab.host.reopen()
      await Promise.all([
        lab.host.driver.start(machine, signal),
        other.start(machine, signal),
        lab.host.driver.start(machine, signal),
      ])
      const first = await observed(machine)
      await lab.host.driver.start(machine, signal)
      expect(await observed(machine)).to.deep.equal(first)
    })

    it('waits until the process lxc-start of an earlier agent has ended', async () => {
      const machine = await prepared()
      const orphan = spawn(
        '/usr/bin/lxc-start',
        ['-P', `${lab.host.path}/state/lxc`, '-n', `${prefix}-${machine.id}`],
        { env: { PATH: '/usr/sbin:/sbin' }, stdio: 'ignore' },
      )
      await waitFor(() => traces().some((trace) => trace.startsWith('@')), { intervalMs: 1 })
      await lab.host.driver.start(machine, signal)
      expect((await observed(machine)).pid).to.be.greaterThan(0)
      if (orphan.exitCode === null) await new Promise((resolve) => orphan.once('exit', resolve))
      expect(orphan.exitCode).to.equal(0)
    })

    it('removes what is left of a guest whose monitor was killed', async () => {
      const machine = await started()
      const { pid } = await observed(machine)
      process.kill(parentOf(pid), 'SIGKILL')
      await waitFor(() => ends.length > 0)
      expect(ends).to.deep.equal([{ uuid: machine.uuid, cause: 'crash' }])
      expect(
        traces().some((trace) => trace.includes('lxc.payload')),
        'leftovers',
      ).to.equal(true)
      await lab.host.driver.start(machine, signal)
      expect((await observed(machine)).pid).to.not.equal(pid)
    })

    const nicWith = (ipv6Addresses: string[]): Pick<Machine, 'nic'> => ({
      nic: { ...lab.host.machine().nic, ipv6Addresses },
    })

    it('sets all IPv6 addresses of the guest, even the maximum number, before its first process runs', async () => {
      const { max } = networkLimits.addresses
      const addresses = Array.from({ length: max }, (_, i) => `2001:db8::${(i + 1).toString(16)}`)
      const machine = await prepared(nicWith(addresses))
      replaceInit(machine, 'ip -6 -oneline address show scope global >/root/seen; exec sleep 1000')
      await lab.host.driver.start(machine, signal)
      const path = `${machine.volume}/root/seen`
      const count = (text: string): number => readFileSync(path, 'utf8').split(text).length - 1
      await waitFor(() => existsSync(path) && count('\n') >= max)
      expect([count('\n'), count(' deprecated '), count(' tentative ')]).to.deep.equal([max, max - 1, 0])
    })

    it('leaves nothing behind if an address is invalid', async () => {
      const machine = await prepared(nicWith(['2001:db8::5', '2001:db8::5']))
      const error: Error = await lab.host.driver.start(machine, signal).then(
        () => expect.fail('started'),
        (reason: Error) => reason,
      )
      expect(error.message).to.match(/start-host/)
      expect(await lab.host.driver.observe()).to.deep.equal([])
    })

    it('leaves nothing behind if the guest cannot start, and reports the reason', async () => {
      const machine = await prepared()
      rmSync(`${machine.volume}/usr/sbin/init`, { force: true })
      const error: Error = await lab.host.driver.start(machine, signal).then(
        () => expect.fail('started'),
        (reason: Error) => reason,
      )
      expect(error.message).to.match(/init/)
      expect(await lab.host.driver.observe()).to.deep.equal([])
    })
  })

  describe('when it stops a guest', () => {
    it('lets a booting guest shut itself down', async () => {
      const machine = await started()
      const begun = performance.now()
      await lab.host.driver.stop(machine, { timeoutMs: patienceMs, signal })
      expect(performance.now() - begun, 'ms, before it is killed').to.be.below(patienceMs)
      expect(await lab.host.driver.observe()).to.deep.equal([])
      await lab.host.driver.stop(machine, { timeoutMs: 1000, signal })
      expect(ends).to.deep.equal([])
    })

    it('kills an unresponsive guest after the timeout, or immediately on request', async () => {
      const machine = await prepared()
      replaceInit(machine, 'trap "" PWR TERM INT; while :; do sleep 1; done')
      await lab.host.driver.start(machine, signal)
      const begun = performance.now()
      await lab.host.driver.stop(machine, { timeoutMs: 300, signal })
      expect(performance.now() - begun).to.be.within(300, deadlineOf(5000))
      await lab.host.driver.start(machine, signal)
      await lab.host.driver.stop(machine, { timeoutMs: 0, signal })
      expect(await lab.host.driver.observe()).to.deep.equal([])
    })

    it('shuts down a guest whose init handles only SIGPWR', async () => {
      const machine = await prepared()
      replaceInit(machine, 'trap "exit 0" PWR; while :; do sleep 0.1; done')
      await lab.host.driver.start(machine, signal)
      await lab.host.driver.stop(machine, { timeoutMs: 20_000, signal })
      expect(await lab.host.driver.observe()).to.deep.equal([])
    })

    it('leaves the guest unaffected if the caller aborts the stop', async () => {
      const machine = await prepared()
      replaceInit(machine, 'trap "" PWR; while :; do sleep 1; done')
      await lab.host.driver.start(machine, signal)
      const stopping = new AbortController()
      const end = lab.host.driver.stop(machine, { timeoutMs: 60_000, signal: stopping.signal })
      stopping.abort(new Error('shutting down'))
      expect(await end.catch((error: Error) => error.message)).to.equal('shutting down')
      await observed(machine)
    })

    it('stops a guest whose cgroups are nested deeper than PATH_MAX', async () => {
      const machine = await started()
      await booted(machine)
      const memory = '/sys/fs/cgroup/memory'
      const nest = 'cd $0; i=0; while [ $i -lt 60 ]; do mkdir $1 && cd -P ./$1 || exit 1; i=$((i+1)); done'
      lab.host.inside(machine, '/bin/sh', '-c', nest, existsSync(memory) ? memory : '/sys/fs/cgroup', 'g'.repeat(200))
      await lab.host.driver.stop(machine, { timeoutMs: 20_000, signal })
      expect(await lab.host.driver.observe()).to.deep.equal([])
    })
  })

  describe('when a guest ends', () => {
    it('reports only once that the guest shut itself down', async () => {
      const machine = await started()
      await booted(machine)
      systemctl(machine, 'poweroff')
      await waitFor(() => ends.length > 0)
      expect(ends).to.deep.equal([{ uuid: machine.uuid, cause: 'guest' }])
      expect(await lab.host.driver.observe()).to.deep.equal([])
    })

    it('reports a shutdown to the next agent if no agent was running', async () => {
      const machine = await started()
      const mark = `${lab.host.path}/run/lxc-stopped/${prefix}-${machine.id}`
      await booted(machine)
      lab.host.driver.close()
      systemctl(machine, 'poweroff')
      await waitFor(() => existsSync(mark))
      const next = await lab.host.reopen()
      const told: StopCause[] = []
      next.onStopped((uuid, cause) => void (uuid === machine.uuid && told.push(cause)))
      await waitFor(() => told.length > 0)
      expect(told).to.deep.equal(['guest'])
      expect(existsSync(mark)).to.equal(false)
    })

    it('reports nothing if the guest reboots itself, and keeps the network and the id mapping of the guest', async () => {
      const next = await lab.host.reopen()
      const told: string[] = []
      next.onStopped((uuid) => told.push(uuid))
      const machine = await started()
      await booted(machine)
      const before = await observed(machine)
      await next.observe()
      systemctl(machine, 'reboot')
      await waitFor(async () => (await next.observe()).some((o) => o.pid && o.pid !== before.pid))
      await booted(machine)
      sh('ping', '-c1', '-W5', machine.nic.ipv4)
      expect(lab.host.inside(machine, 'grep', '-w', '/', '/proc/self/mountinfo')).to.match(/nodev.*idmapped/)
      expect(told).to.deep.equal([])
    })

    it('can stop the guest even while the guest reboots', async () => {
      const machine = await prepared()
      replaceInit(machine, 'sleep 1; reboot -ff')
      await lab.host.driver.start(machine, signal)
      const first = await waitFor(async () => (await lab.host.driver.observe())[0])
      await waitFor(async () => (await lab.host.driver.observe())[0]?.pid !== first.pid, { intervalMs: 1 })
      await lab.host.driver.stop(machine, { timeoutMs: 5000, signal })
      expect(await lab.host.driver.observe()).to.deep.equal([])
      await new Promise((resolve) => setTimeout(resolve, 300))
      expect(await lab.host.driver.observe()).to.deep.equal([])
    })
  })

  describe('when the agent ends', () => {
    it('does not affect running guests, because their monitors and processes have cgroups of their own', async () => {
      const machine = await started()
      const { pid } = await observed(machine)
      const own = readFileSync('/proc/self/cgroup', 'utf8').split('\n')
      for (const of of [pid, parentOf(pid)])
        for (const line of readFileSync(`/proc/${of}/cgroup`, 'utf8').trim().split('\n')) {
          const path = line.split(':')[2] ?? ''
          expect(path).to.match(new RegExp(`^/lxc\\.(payload|monitor)\\.${prefix}-${machine.id}`))
          expect(own.some((ours) => ours.endsWith(`:${path}`))).to.equal(false)
        }
      expect(parentOf(parentOf(pid))).to.not.equal(process.pid)
    })
  })
})
