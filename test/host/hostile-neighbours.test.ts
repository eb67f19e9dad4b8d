import { env } from 'node:process'
import { expect } from 'chai'
import { ensureHostLimits } from '../../agent/drivers/lxc/host-limits.js'
import { ensureFairDisk } from '../../agent/drivers/lxc/fair-disk.js'
import { findDiskNumbers } from '../../agent/drivers/common/group-facts.js'
import { recordKernelSettings, restoreKernelSettings } from '../../agent/daemon/kernel-record.js'
import { createLogger } from '../../shared/logging.js'
import { attack, describeQuiet, killQuickly, startHostile, watchQuiet } from '../support/attacks/hostile-neighbours.js'
import { useLxcHost } from '../support/host/lxc-lab.js'
import { waitFor } from '../support/wait.js'

/** The figures in docs/design/guest-confinement.md were measured with HOSTILE_GUESTS=24 HOSTILE_SECONDS=30. */
const guests = Number(env.HOSTILE_GUESTS ?? 3)
const seconds = Number(env.HOSTILE_SECONDS ?? 10)

describe('hostile guests', function () {
  const lab = useLxcHost({
    name: 'btest-hostiles',
    prefix: 'bthn',
    subnet: '10.214.42',
    lxcfs: true,
    poolGb: 16,
  })
  const kernel = (): [string, string] => [`${lab.host.path}/kernel`, `${lab.host.path}/kernel.json`]

  before(async () => {
    await recordKernelSettings(kernel()[0], 'btesthn', kernel()[1])
    ensureHostLimits()
    expect(ensureFairDisk(findDiskNumbers(`${lab.host.path}/pool`), `${lab.host.path}/pool.img`)).to.deep.equal([])
  })
  after(async () => {
    const [state, file] = kernel()
    await restoreKernelSettings(state, createLogger({ name: 'test', level: 'error' }), file)
  })

  it('cannot prevent another guest from answering and from writing to its disk', async () => {
    const quiet = await lab.started()
    await lab.booted(quiet)
    const alone = await watchQuiet(lab, quiet, seconds)
    const hostile = []
    for (let count = 0; count < guests; count++) hostile.push(await startHostile(lab))
    for (const machine of hostile) await lab.booted(machine)
    hostile.forEach(attack)
    for (const machine of hostile)
      await waitFor(
        async () => (await lab.host.driver.usage(machine, (await lab.observed(machine)).pid)).runnable > 5,
        {
          intervalMs: 200,
          what: 'the attack to begin',
        },
      )
    const beside = await watchQuiet(lab, quiet, seconds)
    console.log(describeQuiet('alone', alone))
    console.log(describeQuiet(`next to ${guests}`, beside))
    await killQuickly(hostile, lab)
    // An attempt that takes more than 5 s counts as failed. docs/design/guest-confinement.md contains figures.
    expect(beside.ssh.failed, 'greetings').to.be.at.most(beside.ssh.count / 2)
    expect(beside.ping.failed, 'pings').to.be.at.most(beside.ping.count / 10)
    expect(beside.fsync.count).to.be.above(0)
    expect(alone.availableMib - beside.availableMib, 'MiB of the host').to.be.below(guests * 512 + 1024)
    const another = await lab.started()
    await lab.booted(another)
  })
})
