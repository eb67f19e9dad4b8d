import type { gateways as english } from '../en/gateways.ts'

export const gateways: Readonly<Record<keyof typeof english, string>> = {
  'gateways.text': '提供 API 和本面板的服务器。任何一台都可以发生故障。',
  'gateways.none': '还没有网关。',
  'gateways.add': '添加网关',
  'gateways.invite': '生成命令',
  'gateways.addText': '新网关会得到集群的证书颁发机构和全部密钥。只在您信任的服务器上运行该命令。',
  'gateways.nameHint': '可选。默认为服务器的主机名。',
  'gateways.command': '新网关的命令',
  'gateways.commandText': '请在服务器上安装 berth-gateway 软件包，然后在 {{time}} 之前以 root 身份运行此命令。',
  'gateways.answers': '当前页面由它提供',
  'gateways.until': '有效期至 {{time}}',
  'gateways.load': '负载',
  'gateways.loadValue': 'CPU {{percent}} %，内存 {{mb}} MiB',
  'gateways.leases': '承担的集群任务',
  'gateways.lease.webhook-lease': '投递 Webhook 通知',
  'gateways.lease.fleet-upgrade-worker': '升级主机',
  'gateways.started': '启动时间',
  'gateways.removeAsk': '移除 {{name}}？',
  'gateways.removeText': '该网关会停止运行。其服务器仍保留集群的密钥：请在该服务器上删除，或更改 Redis 的密码。',
  'status.invited': '已邀请',
}
