import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { quietMs, type AlertState } from '../../agent/abuse/plan-merge.js'
import { AlertStore } from '../../agent/abuse/alert-store.js'
import { figuresOf, indexAt, planHistory, planWrites, tiers, type Range } from '../../agent/history/plan-series.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { LabAgent } from '../support/memory/lab-agent.js'
import { MoveLab } from '../support/memory/move-lab.js'
import { waitFor } from '../support/wait.js'

const figures = figuresOf({ cpuPercent: 25, memoryBytes: 1024 })

describe('the history of a guest that moves between hosts', function () {
  let lab: MoveLab
  before(async () => {
    lab = await MoveLab.start({ security: { interval_seconds: 60 } })
  })
  after(() => lab?.close())
  afterEach(() => lab?.reset())

  /** Runs a task of the guest on the source. @returns the id of the task */
  async function runTask({ uuid }: Guest): Promise<string> {
    const operationId = randomUUID()
    const order = { $case: 'restart', value: { uuid, force: true, liftBlock: false } } as const
    await lab.fleet.agent('host-a').operations.submitOperation({ operationId, requestedBy: 'admin', order })
    await waitFor(() => lab.statusOf(operationId) === 'done', { what: 'the end of the task' })
    return operationId
  }

  function addAlert(agent: LabAgent, { uuid, id, name }: Guest): string {
    const nowMs = Date.now()
    const place = { guestUuid: uuid, guestId: id, guestName: name, sourceIp: '10.0.0.2', targetIp: '198.51.100.9' }
    const times = { firstAtMs: nowMs - 60_000, lastAtMs: nowMs, criticalAtMs: nowMs, stopAtMs: 0 }
    const kind = { type: 'port_scan', severity: 'critical', targetPort: 0, detail: '', count: 5, action: '' } as const
    const alert: AlertState = { ...place, ...times, ...kind }
    return new AlertStore(agent.domain.changes).put(undefined, alert)
  }

  /** Fills all rings: the minutes of a day, the hours of a month and the days of a year. */
  function fillSeries(agent: LabAgent, uuid: string): void {
    for (const range of ['day', 'month', 'year'] as const) {
      const [tier, end] = [tiers[range], indexAt(tiers[range], Date.now())]
      const points = Array.from({ length: tier.size - 1 }, (_, at) => ({ index: end - tier.size + 1 + at, figures }))
      agent.domain.series.write(uuid, planWrites(tier, points))
    }
  }

  const countSteps = (agent: LabAgent, uuid: string, range: Range): number =>
    planHistory(agent.domain.series.readLatest(uuid), range, Date.now()).steps.filter(
      ({ cpuPercent }) => cpuPercent === 25,
    ).length

  const countRows = (agent: LabAgent, table: string): number =>
    agent.domain.changes.db.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get()!

  const tasksOf = (agent: LabAgent, { uuid }: Guest): string[] =>
    agent.domain.engine.store.list().flatMap(({ id, subject }) => (subject.id === uuid ? [id] : []))

  it('shows tasks, alerts and usage on the new host, without events, and deletes them on the former one', async () => {
    const guest = await lab.addGuest()
    const taskId = await runTask(guest)
    const alertId = addAlert(lab.source, guest)
    fillSeries(lab.source, guest.uuid)
    await waitFor(() => lab.fleet.view.alerts('host-a').some(({ alert }) => alert.id === alertId))
    const news: string[] = []
    const stop = lab.fleet.view.changes.listen((change, host) => {
      if (change.kind === 'task' && (change.after ?? change.before)?.operation.id === taskId) news.push(`task ${host}`)
      if (change.kind === 'alert') news.push(`alert ${host}`)
    })
    await lab.moveDone(guest)
    await lab.expectOnlyAt('host-b', guest)
    await waitFor(() => lab.fleet.view.findOperation(taskId)?.hostId === 'host-b', { what: 'the task at its new host' })
    await waitFor(() => lab.fleet.view.alerts('host-a').length === 0, { what: 'no alert at the former host' })
    stop()
    expect(news).to.deep.equal([])
    expect(lab.fleet.view.operationsOf([guest.uuid]).map(({ operation }) => operation.id)).to.include(taskId)
    expect(lab.fleet.view.findHost('host-a')?.warnings).to.deep.equal([])
    const [moved] = lab.fleet.view.alerts('host-b').filter(({ alert }) => alert.id === alertId)
    expect(moved?.alert).to.include({ count: 5, severity: 'critical', guestUuid: guest.uuid })
    for (const range of ['day', 'month', 'year'] as const)
      expect(countSteps(lab.target, guest.uuid, range), range).to.be.within(tiers[range].size - 3, tiers[range].size)
    expect(lab.source.domain.series.keys()).not.to.include(guest.uuid)
    expect(tasksOf(lab.source, guest), 'only the task of the move').to.have.lengthOf(1)
    expect(countRows(lab.source, 'alerts')).to.equal(0)
    expect(countRows(lab.target, 'received_history')).to.equal(0)
    const open = new AlertStore(lab.target.domain.changes).open(Date.now() + quietMs / 2)
    expect(
      open.map(({ id }) => id),
      'a further finding extends the alert',
    ).to.include(alertId)
  })

  it('contains what happens while the disk is copied', async () => {
    const guest = await lab.addGuest()
    const early = addAlert(lab.source, guest)
    let late = ''
    lab.source.observer = ({ step, phase }) => {
      if (step === 'stop' && phase === 'after-run') late = addAlert(lab.source, guest)
    }
    await lab.moveDone(guest)
    await lab.expectOnlyAt('host-b', guest)
    const alerts = new AlertStore(lab.target.domain.changes)
    expect([alerts.find(early)?.guestUuid, alerts.find(late)?.guestUuid]).to.deep.equal([guest.uuid, guest.uuid])
  })

  it('is complete if the last step fails and the guest is moved again', async () => {
    const guest = await lab.addGuest()
    const taskId = await runTask(guest)
    let faults = 0
    lab.source.observer = ({ step }) => {
      if (step !== 'last_changes' || faults++ > 1) return
      throw new Error('a fault of the test')
    }
    expect(await lab.move(guest)).to.equal('failed')
    lab.reset()
    await lab.expectOnlyAt('host-a', guest)
    await waitFor(() => countRows(lab.target, 'received_history') === 0, { what: 'nothing left on the target' })
    expect(tasksOf(lab.source, guest)).to.include(taskId)
    await lab.moveDone(guest)
    await lab.expectOnlyAt('host-b', guest)
    expect(tasksOf(lab.target, guest)).to.include(taskId)
  })

  it('leaves nothing on the target if the move fails, and stays complete on its host', async () => {
    const guest = await lab.addGuest()
    const [taskId, alertId] = [await runTask(guest), addAlert(lab.source, guest)]
    fillSeries(lab.source, guest.uuid)
    let received = 0
    lab.source.observer = ({ step, phase }) => {
      if (step !== 'hand_over' || phase !== 'before-run') return
      received = countRows(lab.target, 'received_history')
      throw new Error('a fault of the test')
    }
    expect(await lab.move(guest)).to.equal('failed')
    await lab.expectOnlyAt('host-a', guest)
    expect(received).to.be.greaterThan(3)
    await waitFor(() => countRows(lab.target, 'received_history') === 0, { what: 'nothing left on the target' })
    expect(tasksOf(lab.target, guest)).to.deep.equal([])
    expect(new AlertStore(lab.target.domain.changes).find(alertId)).to.equal(undefined)
    expect(lab.target.domain.series.keys()).not.to.include(guest.uuid)
    expect(tasksOf(lab.source, guest)).to.include(taskId)
    expect(countSteps(lab.source, guest.uuid, 'month')).to.be.greaterThan(700)
  })

  it('keeps its tasks on the former host if the agent of the target is too old', async () => {
    const guest = await lab.addGuest()
    const taskId = await runTask(guest)
    const { history } = lab.target.domain.context
    Object.assign(history, { position: () => undefined })
    try {
      await lab.moveDone(guest)
    } finally {
      Reflect.deleteProperty(history, 'position') // the method of the class is used again
    }
    await lab.expectOnlyAt('host-b', guest)
    expect(tasksOf(lab.source, guest)).to.include(taskId)
    expect(tasksOf(lab.target, guest)).not.to.include(taskId)
    expect(lab.fleet.view.findOperation(taskId)?.hostId).to.equal('host-a')
  })
})
