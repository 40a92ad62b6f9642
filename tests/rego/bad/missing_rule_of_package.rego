package bad

allow if data.bad.nowhere.x with input as {}

nowhere := {"y": 1}
