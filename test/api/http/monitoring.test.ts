import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { expect } from 'chai'
import { parse } from 'yaml'
import { alertCases, lateTime, normalState, usualTime, type AlertCase } from '../../support/gateway/alert-cases.js'
import { startTestGateway } from '../../support/gateway/test-gateway.js'

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly description: string }
}

interface Panel {
  readonly title: string
  readonly type: string
  readonly description?: string
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } }
  readonly targets?: readonly { readonly expr: string }[]
}

const rulesFile = resolve('monitoring/berth-alerts.yaml')
const { groups } = parse(readFileSync(rulesFile, 'utf8')) as { groups: { rules: Rule[] }[] }
const rules = groups.flatMap((group) => group.rules)
const dashboard = JSON.parse(readFileSync('monitoring/berth-dashboard.json', 'utf8')) as { panels: Panel[] }
const panels = dashboard.panels.filter(({ type }) => type !== 'row')
const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))

/** Names of the metrics in an expression. */
const metricsIn = (text: string): string[] => text.match(/\bberth_\w+/g) ?? []

describe('the monitoring files', () => {
  let exported: ReadonlySet<string>
  before(async () => {
    const gateway = await startTestGateway()
    const { text } = await gateway.request('GET', '/metrics')
    await gateway.close()
    exported = new Set(
      [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].flatMap(([, name = '', type]) => series(name, type)),
    )
  })

  /** Names of the time series that a metric has in Prometheus. */
  const series = (name: string, type = ''): string[] =>
    type === 'histogram' ? ['bucket', 'sum', 'count'].map((part) => `${name}_${part}`) : [name]

  it('use only metrics that a gateway exports', () => {
    const used = [...rules.map(({ expr }) => expr), ...queries, ...Object.keys(normalState)].flatMap(metricsIn)
    expect(used).to.have.length.above(100)
    expect(new Set(used.filter((name) => !exported.has(name)))).to.deep.equal(new Set())
  })

  it('show each metric of Berth in the dashboard', () => {
    const shown = new Set(queries.flatMap(metricsIn))
    const missing = [...exported].filter((name) => !/^berth_gateway_|_sum$/.test(name) && !shown.has(name))
    expect(missing).to.deep.equal([])
  })

  it('contain a dashboard with titles, descriptions, units and valid queries', () => {
    const lacking = panels.filter((panel) => {
      const { title, description, fieldConfig, targets = [] } = panel
      return !title || !description || !fieldConfig?.defaults.unit || targets.length === 0
    })
    expect(lacking).to.deep.equal([])
    expect(new Set(panels.map(({ title }) => title)).size, 'different titles').to.equal(panels.length)
    const expressions = queries.map((expr) => expr.replaceAll('$__rate_interval', '5m').replaceAll(/\$\w+/g, 'x'))
    expect(
      promtool('check', ['rules', '--lint=none'], { groups: [{ name: 'queries', rules: recorded(expressions) }] }),
    ).to.equal(0)
  })

  /** Makes recording rules of expressions, because promtool checks expressions only as parts of rules. */
  const recorded = (expressions: readonly string[]) =>
    expressions.map((expr, index) => ({ record: `berth:query:${index}`, expr }))

  it('contain valid alert rules and a valid configuration of Prometheus', () => {
    execFileSync('promtool', ['check', 'rules', '--lint-fatal', rulesFile])
    execFileSync('promtool', ['check', 'config', '--syntax-only', resolve('monitoring/prometheus.example.yaml')])
  })

  it('contain a text and a severity for each alert', () => {
    for (const { alert, labels, annotations } of rules) {
      expect(labels.severity, alert).to.be.oneOf(['critical', 'warning', 'info'])
      expect(annotations.summary, alert).to.match(/^\S.{10,}/)
      expect(annotations.description, alert).to.match(/^\S.{40,}\.$/)
    }
  })

  it('contain a test case for each alert, with all labels that the text of the alert uses', () => {
    expect(alertCases.map(({ alert }) => alert)).to.have.members(rules.map(({ alert }) => alert))
    for (const { alert, labels } of alertCases) {
      const used = JSON.stringify(ruleOf(alert).annotations).matchAll(/\$labels\.(\w+)/g)
      expect(Object.keys(labels), alert).to.include.members([...used].map(([, name]) => name))
    }
  })

  it('raise no alert in the normal state', () => {
    for (const time of [usualTime, lateTime])
      expect(promtool('test', ['rules'], testFile({ series: {}, firing: [], time }))).to.equal(0)
  })

  for (const one of alertCases)
    it(`raise the alert ${one.alert} in its test case`, () => {
      const others = (one.also ?? []).map((alert) => ({ alert, labels: one.labels }))
      const firing = [one, ...others].map(({ alert, labels }) => sampleOf(alert, labels))
      const { series: changed, time = usualTime } = one
      expect(promtool('test', ['rules'], testFile({ series: changed, firing, time }))).to.equal(0)
    })

  const ruleOf = (alert: string): Rule => rules.find((rule) => rule.alert === alert)!

  function sampleOf(alert: string, labels: AlertCase['labels']): string {
    const { severity } = ruleOf(alert).labels
    const all = Object.entries({ alertname: alert, alertstate: 'firing', severity, job: 'berth', ...labels })
    return `ALERTS{${all.map(([name, value]) => `${name}="${value}"`).join(', ')}}`
  }

  interface TestedState {
    /** Series that differ from the normal state. */
    readonly series: Readonly<Record<string, string>>
    /** All alerts that Prometheus must raise. */
    readonly firing: readonly string[]
    readonly time: number
  }

  /** A file for `promtool test rules`. */
  function testFile({ series: changed, firing, time }: TestedState): object {
    const test = {
      interval: '1m',
      input_series: Object.entries({ ...normalState, ...changed }).map(([name, values]) => ({ series: name, values })),
      promql_expr_test: [
        {
          expr: 'ALERTS{alertstate="firing"}',
          eval_time: `${time}m`,
          exp_samples: firing.map((labels) => ({ labels, value: 1 })),
        },
      ],
    }
    return { rule_files: [rulesFile], evaluation_interval: '5m', tests: [test] }
  }

  /** Runs promtool with a file that contains the value. @returns its exit code; its output is printed on failure */
  function promtool(command: string, options: readonly string[], value: object): number | null {
    const directory = mkdtempSync(join(tmpdir(), 'btest-monitoring-'))
    const file = join(directory, 'file.yaml')
    writeFileSync(file, JSON.stringify(value))
    const { status, stdout, stderr } = spawnSync('promtool', [command, ...options, file], { encoding: 'utf8' })
    rmSync(directory, { recursive: true })
    if (status !== 0) console.log(stdout, stderr)
    return status
  }
})
