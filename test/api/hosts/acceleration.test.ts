import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

const capabilities = { consoles: [], liveResize: [], setPassword: [], freeze: false, snapshotRunning: false }

describe('the hardware acceleration of a host', function () {
  let gateway: TestGateway
  before(async () => void (gateway = await startTestGateway()))
  after(() => gateway.close())

  /** Returns what the list of hosts shows about KVM on the only host: availability, acceleration and reason. */
  const shown = async (): Promise<Record<string, unknown>> => {
    const [row] = (await gateway.request('GET', '/hosts')).body.data as Record<string, unknown>[]
    const { kvm, kvm_acceleration: how, kvm_reason: why } = row!
    return { kvm, how, why }
  }

  it('is shown correctly after each change, without a restart of the agent', async () => {
    expect(await shown()).to.deep.equal({ kvm: false, how: '', why: '' })
    for (const [acceleration, accelerationReason] of [
      ['tcg', '/dev/kvm is not there'],
      ['kvm', ''],
      ['tcg', '/dev/kvm: a test guest did not run within 3000 ms'],
    ] as const) {
      gateway.fleet.agents.get('host-a')!.host.machines = {
        available: true,
        acceleration,
        accelerationReason,
        capabilities,
      }
      const wanted = { kvm: true, how: acceleration, why: accelerationReason }
      await waitFor(async () => JSON.stringify(await shown()) === JSON.stringify(wanted), {
        what: `${acceleration}, ${accelerationReason}`,
      })
      const { host } = (await gateway.request('GET', '/host-report')).body.data as { host: object }
      expect(host).to.include({ kvm: true, kvm_acceleration: acceleration, kvm_reason: accelerationReason })
    }
  })
})
