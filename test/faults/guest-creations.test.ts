import { expect } from 'chai'
import { join } from 'node:path'
import type { OperationServiceClient } from '../../proto/gen/berth/agent/v1/operation.js'
import {
  callUntilAnswered,
  createGuest,
  createRequest,
  operationDone,
  operationEnded,
  powerOrder,
  submit,
} from '../support/host/agent-calls.js'
import type { AgentProcess } from '../support/host/agent-process.js'
import { installBusyboxImage } from '../support/guests/busybox-image.js'
import { createFaultyAgent, setFaults } from '../support/host/faulty-agent.js'
import {
  finishDeletions,
  readInits,
  readInventory,
  readMachineProcesses,
  type Instance,
} from '../support/host/inventory.js'
import { readExpected } from '../support/host/journal-inventory.js'
import { installIdleImage, matrixMachine } from '../support/guests/matrix-guests.js'
import { waitFor } from '../support/wait.js'

const tag = 'gc'
/** Two containers and a virtual machine. The disk of the second container is slow. */
const specs = [{}, {}, matrixMachine.spec]
const slow = `initialize x${tag}2`

/** Tests the order in which the disks are created and the guests boot (docs/design/operations.md). */
describe('guests that are created at the same time', function () {
  let agent: AgentProcess
  let instance: Instance
  let operations: OperationServiceClient

  before(async () => {
    agent = await createFaultyAgent(tag)
    const { directory } = agent
    const [stateDir, pool] = [join(directory, 'state'), join(directory, 'pool')]
    instance = {
      stateDir,
      runDir: join(directory, 'run'),
      pool,
      table: `btest_${tag}`,
      interfacePrefix: `x${tag}`,
    }
    await agent.start()
    await agent.ready()
    await agent.kill('SIGTERM')
    await installBusyboxImage(pool, 'debian-12')
    installIdleImage(pool, 'debian-12-kvm')
    await agent.start()
    await agent.ready()
    operations = agent.operations()
  })
  after(async () => {
    operations?.close()
    await agent?.destroy()
  })

  const running = (): string[] => [...readInits(instance).keys(), ...readMachineProcesses(instance).keys()].sort()
  const stageOf = async (id: string): Promise<string | undefined> =>
    (await callUntilAnswered(operations.getOperation.bind(operations), { id })).operation?.stage

  /** Creates all guests, and delays the second disk until the others exist. @returns the requests in order */
  async function createAll(): Promise<ReturnType<typeof createRequest>[]> {
    setFaults(agent, { [slow]: 'hold' })
    const requests = specs.map((spec, index) => createRequest(index + 1, `at-once-${index + 1}`, spec))
    await Promise.all(requests.map((request) => createGuest(operations, request)))
    await othersWait(requests)
    return requests
  }

  async function othersWait([first, second, third]: readonly {
    readonly operationId: string
  }[]): Promise<void> {
    const stages = async (): Promise<string> =>
      (await Promise.all([first!, second!, third!].map(({ operationId }) => stageOf(operationId)))).join()
    await waitFor(async () => (await stages()) === 'start,disk,start', {
      what: 'two disks',
    })
    expect(running()).to.deep.equal([])
  }

  async function asJournaled(): Promise<void> {
    await finishDeletions(instance)
    const isSo = (): boolean => JSON.stringify(readInventory(instance)) === JSON.stringify(readExpected(instance))
    await waitFor(isSo).catch(() => undefined)
    expect(readInventory(instance)).to.deep.equal(readExpected(instance))
  }

  async function remove(requests: readonly { readonly uuid: string }[]): Promise<void> {
    for (const { uuid } of requests) {
      const { operation } = await submit(operations, powerOrder('delete', uuid))
      await operationDone(operations, operation!.id)
    }
    await asJournaled()
    expect(running()).to.deep.equal([])
  }

  it('start only when all their disks exist, even if the agent is killed during the creation', async () => {
    const requests = await createAll()
    await agent.kill('SIGKILL')
    await agent.start()
    await agent.ready()
    await othersWait(requests)
    setFaults(agent, {})
    for (const { operationId } of requests) await operationDone(operations, operationId)
    expect(running()).to.deep.equal([`x${tag}-1`, `x${tag}-2`, `x${tag}-3`])
    await asJournaled()
    await remove(requests)
  })

  it('start even if the disk of one guest cannot be created, and nothing of that guest remains', async () => {
    const [first, second, third] = await createAll()
    setFaults(agent, { [slow]: 'fail' })
    for (const { operationId } of [first!, third!]) await operationDone(operations, operationId)
    expect((await operationEnded(operations, second!.operationId)).status).to.equal('failed')
    expect(running()).to.deep.equal([`x${tag}-1`, `x${tag}-3`])
    await asJournaled()
    await remove([first!, third!])
  })
})
