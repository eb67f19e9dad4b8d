import { expect } from 'chai'
import { EventStream } from '../../support/gateway/event-stream.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

const target = '198.51.100.9'

describe('an alert', () => {
  let gateway: TestGateway
  let stream: EventStream
  before(async () => {
    gateway = await startTestGateway({ agentConfig: { security: { interval_seconds: 60 } } })
    const guest = await gateway.fleet.addGuest({ name: 'bad-guest' })
    agentClockMs = Date.now()
    const agent = gateway.fleet.agentOf('host-a')
    agent.now = () => agentClockMs
    address = agent.guests().find(({ uuid }) => uuid === guest.uuid)!.ipv4
    stream = await EventStream.open(gateway.url, { 'x-api-key': gateway.adminKey })
    await stream.wait(({ event }) => event === 'ready', 'a beginning')
  })
  after(async () => {
    stream.close()
    await gateway.close()
  })
  let agentClockMs = 0
  let address = ''

  async function scan(ports: number): Promise<void> {
    gateway.fleet.agentOf('host-a').host.sensor.scanPorts(address, target, ports)
    const { status, text } = await gateway.request('POST', '/security/check')
    expect(status, text).to.equal(200)
    agentClockMs += 6000 // if a check follows sooner, the agent only repeats its previous result
  }
  const metrics = async (): Promise<string[]> => {
    const { text } = await gateway.request('GET', '/metrics')
    return text.split('\n').filter((line) => line.startsWith('berth_security_alerts{'))
  }
  const summary = async (): Promise<object> => (await gateway.request('GET', '/security/summary')).body.data as object

  it('is sent as an event when it is raised or becomes more severe', async () => {
    await scan(20)
    const raised = await stream.type('alert.raised')
    expect(raised.data.data).to.include({ type: 'port_scan', severity: 'medium', target_ip: target })
    await scan(200)
    const isWorse = ({ data }: { data: { type?: string; data?: Record<string, unknown> } }): boolean =>
      data.type === 'alert.updated' && data.data?.['severity'] === 'high'
    await stream.wait(isWorse, 'a high one')
  })

  it('is counted in the metrics and the summary with its severity', async () => {
    expect(await metrics()).to.deep.equal(['berth_security_alerts{host="host-a",type="port_scan",severity="high"} 1'])
    expect(await summary()).to.include({ critical: 0, high: 1, medium: 0, low: 0, total_alerts: 1 })
  })

  it('is no longer counted after the abuse has ended, but stays in the list', async () => {
    const { fleet } = gateway
    const [alert] = [...fleet.view.alerts()]
    const agent = fleet.agentOf('host-a')
    const { alerts } = agent.domain.abuse
    const { id, revision: _, ...state } = alerts.find(alert!.alert.id)!
    alerts.put(id, { ...state, lastAtMs: Date.now() - 16 * 60_000 })
    await fleet.caughtUp('host-a')
    expect(await metrics()).to.deep.equal([])
    expect((await gateway.request('GET', '/security/alerts')).body.data).to.have.lengthOf(1)
  })
})
