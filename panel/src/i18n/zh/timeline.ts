import type { timeline as english } from '../en/timeline.ts'

export const timeline: Readonly<Record<keyof typeof english, string>> = {
  'timeline.filter': '显示内容',
  'timeline.kind.all': '全部',
  'timeline.kind.task': '任务',
  'timeline.kind.change': '变更',
  'timeline.kind.alert': '告警',
  'timeline.kind.policy': '策略停止',
  'timeline.kind.restart': '重启',
  'timeline.kind.console': '控制台',
  'timeline.console': '控制台会话',
  'timeline.policy': '已按策略停止：被暂停、到期、流量用尽或滥用',
  'timeline.restart': '已自动重新启动',
}
