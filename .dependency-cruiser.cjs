/** The import rules of docs/architecture.md, held by a tool. */
module.exports = {
  forbidden: [
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true } },
    { name: 'agent-not-gateway', severity: 'error', from: { path: '^agent/' }, to: { path: '^gateway/' } },
    { name: 'gateway-not-agent', severity: 'error', from: { path: '^gateway/' }, to: { path: '^agent/' } },
    {
      name: 'shared-alone',
      severity: 'error',
      from: { path: '^shared/' },
      to: { path: '^(agent|gateway)/' },
    },
    {
      name: 'cli-alone',
      comment: 'The command line knows the gateway by its API only.',
      severity: 'error',
      from: { path: '^cli/', pathNot: 'test\\.ts$' },
      to: { path: '^(agent|gateway|panel|proto|scripts)/' },
    },
    {
      name: 'nobody-needs-cli',
      severity: 'error',
      from: { path: '^(agent|gateway|panel|shared)/' },
      to: { path: '^cli/' },
    },
    {
      name: 'panel-alone',
      comment: 'The panel knows the gateway by its API only.',
      severity: 'error',
      from: { path: '^panel/', pathNot: 'test\\.ts$' },
      to: { path: '^(agent|gateway)/' },
    },
    {
      name: 'host-knows-no-domain',
      comment: 'agent: rpc → domain → host, never back',
      severity: 'error',
      from: { path: '^agent/host/' },
      to: { path: '^agent/(?!host/)' },
    },
    {
      name: 'domain-knows-no-rpc',
      severity: 'error',
      from: { path: '^agent/(?!rpc/|main|daemon)' },
      to: { path: '^agent/rpc/' },
    },
    {
      name: 'rpc-not-host',
      severity: 'error',
      from: { path: '^agent/rpc/' },
      to: { path: '^agent/host/' },
    },
    {
      name: 'access-knows-no-http',
      comment: 'gateway: api → http → access, never back',
      severity: 'error',
      from: { path: '^gateway/access/' },
      to: { path: '^gateway/(api|http)/' },
    },
    {
      name: 'http-knows-no-api',
      severity: 'error',
      from: { path: '^gateway/http/' },
      to: { path: '^gateway/api/' },
    },
    {
      name: 'plans-are-pure',
      severity: 'error',
      from: { path: '(^|/)plan[^/]*\\.ts$', pathNot: 'test\\.ts$' },
      to: {
        path: '(^(node:)?(fs|child_process|net|http|os|timers|crypto)|^agent/host/)',
        dependencyTypesNot: ['type-only'],
        pathNot: '^shared/',
      },
    },
    {
      name: 'product-not-test',
      severity: 'error',
      from: { path: '^(agent|cli|gateway|panel|shared)/', pathNot: 'test\\.ts$' },
      to: { path: '(^test/|\\.test\\.ts$)' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '(^dist/|^proto/gen/)' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { extensions: ['.ts', '.js'] },
  },
}
