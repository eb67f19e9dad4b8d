import { expect } from 'chai'
import { randomInt, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { GuestServiceClient } from '../../proto/gen/berth/agent/v1/guest.js'
import type { Operation, OperationServiceClient } from '../../proto/gen/berth/agent/v1/operation.js'
import { callUntilAnswered, createGuest, createRequest, operationDone } from '../support/agent-calls.js'
import { AgentProcess } from '../support/agent-process.js'
import { installBusyboxImage } from '../support/busybox-image.js'
import {
  finishDeletions,
  readExpected,
  readInits,
  readInventory,
  readOperationCounts,
  type Instance,
} from '../support/inventory.js'
import { waitFor } from '../support/wait.js'

const kills = Number(process.env['BERTH_TEST_KILLS'] ?? 40)
const steadyGuests = 3
const busyGuests = 6

/** Asks for random things of its guest until told to stop; what the agent acknowledged is remembered. */
class Customer {
  readonly acknowledged: string[] = []
  #uuid: string | undefined

  constructor(
    private readonly client: GuestServiceClient,
    private readonly slot: number,
    private readonly nextId: () => number,
  ) {}

  async run(stopped: () => boolean): Promise<void> {
    while (!stopped()) {
      try {
        await this.#order(stopped)
      } catch {
        this.#uuid = undefined // refused: it is gone or being deleted
      }
      await delay(randomInt(10, 250))
    }
  }

  async #order(stopped: () => boolean): Promise<void> {
    const { client } = this
    if (this.#uuid === undefined) {
      const id = this.nextId()
      const request = createRequest(id, `busy-${this.slot}-${id}`)
      const { operation } = await callUntilAnswered(client.createGuest.bind(client), request, stopped)
      this.#note(operation)
      this.#uuid = request.uuid
      return
    }
    const order = { operationId: randomUUID(), uuid: this.#uuid, requestedBy: 'test', force: true }
    const { operation } = await callUntilAnswered(this.#randomMethod(), order, stopped)
    this.#note(operation)
    if (operation?.action === 'delete') this.#uuid = undefined
  }

  #randomMethod() {
    const { client } = this
    const methods = [
      client.startGuest.bind(client),
      client.stopGuest.bind(client),
      client.restartGuest.bind(client),
      client.deleteGuest.bind(client),
    ] as const
    return methods[randomInt(methods.length)] as (typeof methods)[1]
  }

  #note(operation: Operation | undefined): void {
    if (operation) this.acknowledged.push(operation.id)
  }
}

describe(`agent killed ${kills} times`, function () {
  this.timeout(600_000)
  let agent: AgentProcess
  let instance: Instance
  let client: GuestServiceClient
  let operations: OperationServiceClient
  let stopped = false

  before(async () => {
    agent = await AgentProcess.create('k')
    instance = {
      stateDir: join(agent.directory, 'state'),
      pool: join(agent.directory, 'pool'),
      table: 'btest_k',
      interfacePrefix: 'xk',
    }
    await agent.start()
    await agent.ready()
    await agent.kill('SIGTERM')
    await installBusyboxImage(instance.pool, 'debian-12')
  })

  // On a failure, too: open clients and busy customers would keep the process alive.
  after(async () => {
    stopped = true
    client?.close()
    operations?.close()
    await agent?.destroy()
  })

  it('loses nothing, leaks nothing, stops no guest', async () => {
    await agent.start()
    await agent.ready()
    client = agent.guests()
    operations = agent.operations()
    let lastId = 0
    for (let i = 0; i < steadyGuests; i++) {
      const { operation } = await createGuest(client, createRequest(++lastId, `steady-${i}`))
      await operationDone(operations, operation!.id)
    }
    const before = readInits(instance)
    expect([...before.keys()]).to.have.length(steadyGuests)

    const customers = Array.from(
      { length: busyGuests },
      (_, slot) => new Customer(client, slot, () => ++lastId),
    )
    const runs = customers.map((customer) => customer.run(() => stopped))
    for (let kill = 0; kill < kills; kill++) {
      await delay(randomInt(0, 900))
      await agent.kill('SIGKILL')
      await agent.start()
      await agent.ready()
      for (const [name, identity] of before) expect(readInits(instance).get(name), name).to.equal(identity)
    }
    stopped = true
    await Promise.all(runs)

    await waitFor(() => openOperations(instance) === 0, {
      timeoutMs: 120_000,
      what: () => `all operations ended: ${JSON.stringify(readOperationCounts(instance))}`,
    })
    for (const id of customers.flatMap((customer) => customer.acknowledged))
      await waitFor(
        async () => (await callUntilAnswered(operations.getOperation.bind(operations), { id })).operation,
      )
    finishDeletions(instance)
    await waitFor(() => JSON.stringify(readInventory(instance)) === JSON.stringify(readExpected(instance)), {
      timeoutMs: 30_000,
    }).catch(() => undefined)
    expect(readInventory(instance)).to.deep.equal(readExpected(instance))
    for (const [name, identity] of before) expect(readInits(instance).get(name), name).to.equal(identity)
  })
})

function openOperations(instance: Instance): number {
  const counts = readOperationCounts(instance)
  return (counts['pending'] ?? 0) + (counts['running'] ?? 0)
}
