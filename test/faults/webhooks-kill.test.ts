import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'chai'
import { joinGateway } from '../../agent/enrollment/join.js'
import { endLeftGateway, GatewayProcess } from '../support/gateway/gateway-process.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'
import { answers, takes, WebhookReceiver } from '../support/gateway/webhook-receiver.js'

const kills = Number(process.env['BERTH_TEST_KILLS'] ?? 4)
const guests = 8
const root = 'btest-webhooks-kill'

/** Kills a real gateway, but not its Redis, while it delivers events to a receiver that fails occasionally. */
describe(`a gateway that is killed ${kills} times while it delivers webhooks`, function () {
  let gateway: GatewayProcess
  let agent: LabAgent
  let receiver: WebhookReceiver
  let wipe: () => void

  before(async () => {
    const directory = `/var/tmp/${root}/gateway`
    await endLeftGateway(directory)
    const scratch = scratchDirectory(root)
    wipe = scratch.wipe
    gateway = await GatewayProcess.create(directory, '127.0.0.1', {
      webhooks: { allow_http: true, allowed_targets: ['127.0.0.1'] },
    })
    gateway.start()
    await gateway.ready()
    const added = await gateway.request('POST', '/hosts', { body: { name: 'lab', address: '127.0.0.1:1' } })
    const { join_token, host } = added.body.data as { join_token: string; host: { id: string } }
    const identityDir = `/var/tmp/${root}/identity`
    await joinGateway(join_token, identityDir)
    agent = await LabAgent.start({ identityDir })
    agent.seed(guests)
    await gateway.request('PATCH', `/hosts/${host.id}`, { body: { address: agent.address } })
    await isOnline()
    receiver = await WebhookReceiver.start()
    receiver.answer = (...asked) => (randomInt(5) === 0 ? answers(503) : takes)(...asked)
    const body = { name: 'kill', url: receiver.url, events: ['guest.updated', 'task.done'] }
    expect((await gateway.request('POST', '/webhooks', { body })).status).to.equal(201)
  })
  after(async () => {
    await gateway?.close()
    await agent?.destroy()
    await receiver?.down()
    wipe?.()
  })

  const isOnline = () =>
    waitFor(
      async () => {
        const reply = await gateway.request('GET', '/hosts').catch(() => undefined)
        return (reply?.body.data as { status: string }[] | undefined)?.[0]?.status === 'online'
      },
      { what: 'the host is online' },
    )
  const told = (uuid: string): number[] =>
    receiver.messages
      .filter(({ body }) => body.type === 'guest.updated' && body.container_uuid === uuid)
      .map(({ body }) => Number(body.data['status_reason']))
      .filter((round) => round > 0)

  it('reports the end of each task, and all changes of a container in their order', async () => {
    const uuids = agent.guests().map(({ uuid }) => uuid)
    const tasks = new Set<string>()
    const last = new Map<string, number>()
    let round = 0
    let over = false
    const changing = (async () => {
      while (!over) {
        const uuid = uuids[randomInt(uuids.length)]!
        agent.update(uuid, { statusReason: String(++round) })
        last.set(uuid, round)
        if (round % 10 === 0) {
          const asked = await gateway.request('POST', `/containers/${uuid}/restart`).catch(() => undefined)
          if (asked && asked.status < 300) tasks.add((asked.body.data as { task_id: string }).task_id)
        }
        await delay(randomInt(1, 20))
      }
    })()
    for (let kill = 0; kill < kills; kill++) {
      await delay(randomInt(300, 1500))
      await gateway.kill()
      await delay(randomInt(0, 300))
      gateway.start()
      await gateway.ready()
      await isOnline()
    }
    over = true
    await changing
    expect(tasks.size, 'tasks').to.be.greaterThan(0)
    const done = (): Set<unknown> =>
      new Set(receiver.messages.filter(({ body }) => body.type === 'task.done').map(({ body }) => body.data['task_id']))
    await waitFor(() => [...tasks].every((id) => done().has(id)), {
      what: () => `tasks ${[...tasks].filter((id) => !done().has(id)).join(' ')} of ${tasks.size}`,
    })
    for (const [uuid, round] of last) {
      // Each change stores its round in `statusReason`. A guest is skipped if a task has cleared its `statusReason`.
      if (agent.guests().find((one) => one.uuid === uuid)?.statusReason !== String(round)) continue
      await waitFor(() => told(uuid).includes(round), { what: `${uuid} ${round}` })
    }
    for (const uuid of uuids) expect(told(uuid)).to.deep.equal(told(uuid).toSorted((a, b) => a - b))
  })
})
